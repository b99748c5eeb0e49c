"""RabbitMQ: the bus between processes, and notifications. Needs the extra `berth[rabbitmq]`."""

from berth.adapters.bus.rabbitmq.broker import Broker
from berth.adapters.bus.rabbitmq.bus import RabbitBus
from berth.adapters.bus.rabbitmq.connection import Line
from berth.adapters.bus.rabbitmq.leader_notifier import OneTeller
from berth.adapters.bus.rabbitmq.notifier import RabbitNotifier

__all__ = ["Broker", "Line", "OneTeller", "RabbitBus", "RabbitNotifier"]
