"""The message about a module that only an extra of the distribution installs."""


def needs_extra(error: ModuleNotFoundError, extra: str) -> str:
    """Return the end of a message: the missing module, and the command that installs its extra."""
    return f"needs {error.name}, which is not installed; run pip install 'berth-scheduler[{extra}]'"
