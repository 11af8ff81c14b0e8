"""Words the assertions share."""


def refused(value):
    """True when a probe's value is an errno ("!EPERM") and not a result."""
    return isinstance(value, str) and value.startswith("!")
