"""The users and projects that clients can look up and authenticate for."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from berth.api.auth.authentication import ADMIN, Accounts, is_name


class Person(NamedTuple):
    """A user; `project_id` is empty for a user without a project.

    The name of a user or project is also its id.
    """

    name: str
    project_id: str
    is_admin: bool


class Directory(Protocol):
    """Looks up users and projects."""

    def find_user(self, name: str) -> Person | None:
        """Return a user by name, or None if there is none."""
        ...

    def users(self) -> Sequence[Person]:
        """Return the users to list, ordered by name."""
        ...

    def has_project(self, name: str) -> bool:
        """Return whether a project exists."""
        ...

    def projects(self) -> Sequence[str]:
        """Return the projects to list, ordered by name."""
        ...


def may_work_in(directory: Directory, person: Person, project: str) -> bool:
    """Return whether a user may have a token for a project.

    It must be the user's own project or, for an administrator, any project that exists.
    """
    return project == person.project_id or (person.is_admin and directory.has_project(project))


def projects_of(directory: Directory, person: Person) -> Sequence[str]:
    """Return all listed projects for an administrator, else the user's own project, if any."""
    own = [person.project_id] if person.project_id else []
    return directory.projects() if person.is_admin else own


class AccountDirectory:
    """A `Directory` of the users that have accounts, and of the projects of these accounts.

    Args:
        accounts: the users.
        admins: users that are administrators.
    """

    def __init__(self, accounts: Accounts, admins: frozenset[str] = frozenset({ADMIN})) -> None:
        self._accounts = accounts
        self._admins = admins
        self._generation = -1
        self._people: dict[str, Person] = {}
        self._projects: dict[str, None] = {}

    def find_user(self, name: str) -> Person | None:
        """See `Directory.find_user`."""
        return self._read().get(name)

    def users(self) -> Sequence[Person]:
        """See `Directory.users`."""
        return list(self._read().values())

    def has_project(self, name: str) -> bool:
        """See `Directory.has_project`."""
        self._read()
        return name in self._projects

    def projects(self) -> Sequence[str]:
        """See `Directory.projects`."""
        self._read()
        return list(self._projects)

    def password_mark(self, name: str) -> str:
        """Return a digest that changes with a user's password; empty for an unknown user."""
        # Tokens contain this digest, because the password hash itself would help to guess the
        # password.
        account = self._accounts.accounts.get(name)
        return "" if account is None else hashlib.sha256(account.password_hash).hexdigest()[:32]

    def _read(self) -> dict[str, Person]:
        generation = self._accounts.generation
        if generation != self._generation:
            self._people = {
                user: Person(user, account.project_id, user in self._admins)
                for user, account in sorted(self._accounts.accounts.items())
            }
            projects = {person.project_id for person in self._people.values()}
            self._projects = dict.fromkeys(sorted(projects - {""}))
            self._generation = generation
        return self._people


class OpenDirectory:
    """A `Directory` for modes without authentication: any valid name is a user and a project.

    Lists contain only the administrators and the projects of the same names.

    Args:
        admins: users that are administrators.
    """

    def __init__(self, admins: frozenset[str] = frozenset({ADMIN})) -> None:
        self._admins = admins

    def find_user(self, name: str) -> Person | None:
        """See `Directory.find_user`."""
        return Person(name, name, name in self._admins) if is_name(name) else None

    def users(self) -> Sequence[Person]:
        """See `Directory.users`."""
        return [Person(name, name, is_admin=True) for name in sorted(self._admins)]

    def has_project(self, name: str) -> bool:
        """See `Directory.has_project`."""
        return is_name(name)

    def projects(self) -> Sequence[str]:
        """See `Directory.projects`."""
        return sorted(self._admins)
