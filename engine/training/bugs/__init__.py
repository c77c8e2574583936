"""Bugs of the kind people write, put into real code one at a time.

    mutation = mutate(source, random.Random(7), start=10, end=24)

A mutation replaces text at the positions that the syntax tree gives, so that everything around it stays byte for byte
as it was: comments, quotes, spacing, line ends. It always compiles; it never touches docstrings, annotations,
decorators or imports. Nothing here knows whether a test notices the bug: that is for whoever draws it to find out.

Where the families of slips come from (ideas, no code): PyBugLab's selector and rewriter (Allamanis et al. 2021: wrong
variable, wrong comparison, boolean, arithmetic and assignment operators, wrong literal, swapped arguments); the
defect classes of QuixBugs (Lin et al. 2017: missing condition, missing arithmetic expression, incorrect comparison,
off by one, variable swap); SWE-smith's procedural modifications (Yang et al. 2025: inverted or removed conditions,
changed operators and constants, swapped operands, shuffled lines, removed assignments, loops and wrappers); the
value, operator, variable and function misuse and the missing and excess logic of HumanEvalPack (Muennighoff et al.
2023); and mutation testing's classic operators (DeMillo et al. 1978).
"""

from engine.training.bugs.draw import OPERATORS, candidates, mutate
from engine.training.bugs.site import Mutation

__all__ = ["OPERATORS", "Mutation", "candidates", "mutate"]
