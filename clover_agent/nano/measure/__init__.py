"""The measure: fresh bugs in packages that clover-nano never saw, through the whole product."""
