"""Turns methods that return steps into methods of both clients.

A group of operations, such as `Hosts`, is written once. Its methods return steps; the decorators
below make them calls that carry out the steps. On a group of the blocking client a call returns the
result, on one of the asynchronous client it returns a coroutine, and type checkers know which.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from berth.client.requests import Json, Pages, Request, Steps
from berth.client.senders import Awaiting, Blocking

K = TypeVar("K", Blocking, Awaiting)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Group(Generic[K]):
    """The operations on one kind of resource.

    Args:
        sender: what sends the requests.
    """

    def __init__(self, sender: K) -> None:
        self.sender: K = sender


class Call(Generic[P, R]):
    """An operation of the blocking client.

    Args:
        steps: returns the steps of the operation.
        sender: what carries it out.
    """

    def __init__(self, steps: Callable[P, Steps[R]], sender: Blocking) -> None:
        self._steps = steps
        self._sender = sender
        update_wrapper(self, steps)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Carry out the operation and return its result.

        Raises:
            ClientError: a request failed.
        """
        return self._sender.drive(self._sender.exchange.carry_out(self._steps(*args, **kwargs)))

    def document(self, *args: P.args, **kwargs: P.kwargs) -> Json:
        """Carry out the operation; return the last response as the JSON object that it is.

        It includes fields that this version of the library does not know.

        Raises:
            ClientError: a request failed.
        """
        return self._sender.drive(self._sender.exchange.document(self._steps(*args, **kwargs)))


class AsyncCall(Generic[P, R]):
    """An operation of the asynchronous client; see `Call`."""

    def __init__(self, steps: Callable[P, Steps[R]], sender: Awaiting) -> None:
        self._steps = steps
        self._sender = sender
        update_wrapper(self, steps)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Carry out the operation and return its result.

        Raises:
            ClientError: a request failed.
        """
        steps = self._steps(*args, **kwargs)
        return await self._sender.drive(self._sender.exchange.carry_out(steps))

    async def document(self, *args: P.args, **kwargs: P.kwargs) -> Json:
        """Carry out the operation; return the last response as the JSON object that it is.

        It includes fields that this version of the library does not know.

        Raises:
            ClientError: a request failed.
        """
        steps = self._steps(*args, **kwargs)
        return await self._sender.drive(self._sender.exchange.document(steps))


class Listing(Generic[P, T]):
    """A list of the blocking client, which is read page by page.

    Args:
        pages: returns the pages of the list.
        sender: what sends the requests.
    """

    def __init__(self, pages: Callable[P, Pages[T]], sender: Blocking) -> None:
        self._pages = pages
        self._sender = sender
        update_wrapper(self, pages)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        """Return an iterator over the items, which requests a page when it needs one.

        Raises:
            ClientError: a request failed.
        """
        pages: Pages[T] = self._pages(*args, **kwargs)
        marker: object = None
        while True:
            effects = self._sender.exchange.carry_out(pages.page(marker))
            items, marker = self._sender.drive(effects)
            yield from items
            if marker is None:
                return

    def documents(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Json]:
        """Return an iterator over the items as the JSON objects that they are; see `Call`.

        Raises:
            ClientError: a request failed.
        """
        pages: Pages[T] = self._pages(*args, **kwargs)
        marker: object = None
        while True:
            document = self._sender.drive(self._sender.exchange.document(pages.page(marker)))
            yield from cast("list[Json]", document[pages.name])
            marker = pages.marker_of(document)
            if marker is None:
                return


class AsyncListing(Generic[P, T]):
    """A list of the asynchronous client; see `Listing`."""

    def __init__(self, pages: Callable[P, Pages[T]], sender: Awaiting) -> None:
        self._pages = pages
        self._sender = sender
        update_wrapper(self, pages)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """Return an iterator over the items, which requests a page when it needs one.

        Raises:
            ClientError: a request failed.
        """
        pages: Pages[T] = self._pages(*args, **kwargs)
        marker: object = None
        while True:
            effects = self._sender.exchange.carry_out(pages.page(marker))
            items, marker = await self._sender.drive(effects)
            for item in items:
                yield item
            if marker is None:
                return

    async def documents(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Json]:
        """Return an iterator over the items as the JSON objects that they are; see `Call`.

        Raises:
            ClientError: a request failed.
        """
        pages: Pages[T] = self._pages(*args, **kwargs)
        marker: object = None
        while True:
            document = await self._sender.drive(self._sender.exchange.document(pages.page(marker)))
            for item in cast("list[Json]", document[pages.name]):
                yield item
            marker = pages.marker_of(document)
            if marker is None:
                return


class operation(Generic[P, R]):  # noqa: N801 - a decorator, like `property`
    """Turns a method that returns steps into an operation."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[R]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, group: None, owner: object) -> Self: ...
    @overload
    def __get__(self, group: Group[Blocking], owner: object) -> Call[P, R]: ...
    @overload
    def __get__(self, group: Group[Awaiting], owner: object) -> AsyncCall[P, R]: ...
    def __get__(
        self, group: Group[Blocking] | Group[Awaiting] | None, owner: object
    ) -> Self | Call[P, R] | AsyncCall[P, R]:
        """Return the call of a group's client, or the decorator itself for a class."""
        if group is None:
            return self
        steps = cast("Callable[P, Steps[R]]", MethodType(self._steps, group))
        sender = group.sender
        return Call(steps, sender) if isinstance(sender, Blocking) else AsyncCall(steps, sender)


class listing(Generic[P, T]):  # noqa: N801 - a decorator, like `property`
    """Turns a method that returns pages into a list."""

    def __init__(self, pages: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self._pages = pages
        self.__doc__ = pages.__doc__

    @overload
    def __get__(self, group: None, owner: object) -> Self: ...
    @overload
    def __get__(self, group: Group[Blocking], owner: object) -> Listing[P, T]: ...
    @overload
    def __get__(self, group: Group[Awaiting], owner: object) -> AsyncListing[P, T]: ...
    def __get__(
        self, group: Group[Blocking] | Group[Awaiting] | None, owner: object
    ) -> Self | Listing[P, T] | AsyncListing[P, T]:
        """Return the list of a group's client, or the decorator itself for a class."""
        if group is None:
            return self
        pages = cast("Callable[P, Pages[T]]", MethodType(self._pages, group))
        sender = group.sender
        return (
            Listing(pages, sender) if isinstance(sender, Blocking) else AsyncListing(pages, sender)
        )


class streaming(Generic[P]):  # noqa: N801 - a decorator, like `property`
    """Turns a method that returns a request into a context manager that streams the response."""

    def __init__(self, request: Callable[Concatenate[Any, P], Request]) -> None:
        self._request = request
        self.__doc__ = request.__doc__

    @overload
    def __get__(self, group: None, owner: object) -> Self: ...
    @overload
    def __get__(
        self, group: Group[Blocking], owner: object
    ) -> Callable[P, AbstractContextManager[Iterator[bytes]]]: ...
    @overload
    def __get__(
        self, group: Group[Awaiting], owner: object
    ) -> Callable[P, AbstractAsyncContextManager[AsyncIterator[bytes]]]: ...
    def __get__(self, group: Group[Blocking] | Group[Awaiting] | None, owner: object) -> object:
        """Return the function of a group's client, or the decorator itself for a class."""
        if group is None:
            return self
        sender = group.sender

        def opened(*args: P.args, **kwargs: P.kwargs) -> object:
            return sender.stream(self._request(group, *args, **kwargs))

        return opened
