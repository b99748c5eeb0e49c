"""RabbitMQ: the bus between processes, and notifications. Needs the extra `berth[rabbitmq]`."""

from berth.adapters.bus.rabbitmq.broker import Broker
from berth.adapters.bus.rabbitmq.bus import RabbitBus
from berth.adapters.bus.rabbitmq.line import Line
from berth.adapters.bus.rabbitmq.notifier import RabbitNotifier
from berth.adapters.bus.rabbitmq.one_teller import OneTeller

__all__ = ["Broker", "Line", "OneTeller", "RabbitBus", "RabbitNotifier"]
