"""The context in which steps run on one host, and the end of a step."""

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.server_image import ImageSize
from berth.domain.compute.step import ERROR_TEXT_MAX, StepError, StepResult
from berth.ports.clock import Clock
from berth.ports.gateway import HostGateway
from berth.ports.virt import VirtDriver


class ImageCopy(NamedTuple):
    """An image that is being made, and the revision of its instance."""

    revision: int
    work: "asyncio.Future[ImageSize]"


@dataclass(frozen=True, slots=True)
class HostContext:
    """One host, with the gateway, driver, clock and settings of its agent.

    Attributes:
        host: the host's name.
        gateway: reaches the control plane.
        driver: the host's driver.
        clock: provides the time.
        stop_grace_s: the seconds that a guest has to shut itself down.
        offloads: whether a shelved instance leaves the host immediately, if the driver can store
            disks.
    """

    host: str
    gateway: HostGateway
    driver: VirtDriver
    clock: Clock
    stop_grace_s: float = 60.0
    offloads: bool = True
    copies: dict[str, ImageCopy] = field(default_factory=dict[str, ImageCopy])
    """The images that are being made, by instance."""

    def cancel_image(self, instance_uuid: str, revision: int) -> None:
        """Cancel the creation of an instance's image, if the instance has changed since it began.

        Args:
            instance_uuid: the instance.
            revision: the revision at which the instance no longer has the task of making the image.
        """
        copy = self.copies.get(instance_uuid)
        # The agent may be ahead of the change feed, which then delivers an older revision.
        if copy is not None and revision > copy.revision:
            copy.work.cancel()


class StepEnd(NamedTuple):
    """The end of a step on the host; the fields are those of `StepOutcome`."""

    result: StepResult = StepResult.DONE
    address: str = ""
    error: StepError | None = None
    image: ImageSize | None = None


DONE = StepEnd()


def failed(error: Exception, power: str = "", result: StepResult = StepResult.FAILED) -> StepEnd:
    """Return the end of a step that failed.

    Args:
        error: the reason for the failure.
        power: the power state of the guest afterwards; empty if it is not known.
        result: the kind of failure.
    """
    blames_host = isinstance(error, BuildError) and error.blames_host
    text = str(error)[:ERROR_TEXT_MAX]
    return StepEnd(result, error=StepError(text, cause_of(error), blames_host, power))


def cause_of(error: Exception) -> FailureCause | None:
    """Return the cause of a failed build, or None when the error is not a failed build.

    Drivers wrap the errors of lower layers, so a timeout is found among the error's causes.
    """
    if not isinstance(error, BuildError):
        return None
    below: BaseException | None = error.__cause__
    while below is not None and error.cause is FailureCause.DRIVER:
        if isinstance(below, TimeoutError):
            return FailureCause.TIMEOUT
        below = below.__cause__
    return error.cause
