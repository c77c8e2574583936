"""What clover-nano is made of and measured by.

corpus: Python modules of permissively licensed packages. executed: bugs in them that were run, with real failures.
episodes: conversations that repair such bugs, the source of its training examples. measure: fresh bugs in packages it
never saw, through the whole product.
"""
