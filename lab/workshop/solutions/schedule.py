"""Both have looked twice before either writes: a shorter gap is still a gap."""


def schedule() -> str:
    return "112212"
