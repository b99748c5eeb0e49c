"""Comparing: whether the scores of a policy mean the same in every zone (ADR 0025)."""

from berth.domain.compute.request import Operation
from berth.scheduling.drivers.multi import MultiScheduler
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.rules.rule import Normalisation


def incomparable_reason(policy: Policy) -> str | None:
    """Tell why scores of a policy cannot be put beside those of other zones; None if they can."""
    driver = policy.driver
    if isinstance(driver, MultiScheduler):
        driver = driver.drivers[driver.routes.get(Operation.CREATE, driver.default)]
    if driver.name == "least_cost" and policy.normalisation is not Normalisation.SHARE:
        return (
            "least_cost divides each cost by the greatest one of the hosts at hand; set "
            'normalisation = "share" in the policy'
        )
    if driver.name in {"chance", "availability_zone"}:
        return f"{driver.name} gives all hosts the same score"
    if driver.name == "simple" or policy.normalisation is Normalisation.SHARE:
        return None
    return (
        "values lie between the least and the greatest of the hosts at hand; set normalisation = "
        '"share" in the policy'
    )
