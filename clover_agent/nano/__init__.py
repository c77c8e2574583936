"""Measuring clover-nano: fresh bugs in packages it never saw, through the whole product."""
