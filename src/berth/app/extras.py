"""The message about a module that only an extra of the distribution installs."""


def needs_extra(error: ModuleNotFoundError, extra: str) -> str:
    """Return what a setting needs, and the command that installs the extra with the module."""
    return f"needs {error.name}, which is not installed; run pip install 'berth-scheduler[{extra}]'"
