"""The bus and the notifier over RabbitMQ; both need the extra `berth-scheduler[rabbitmq]`."""

from berth.adapters.bus.rabbitmq.broker import RabbitBroker
from berth.adapters.bus.rabbitmq.bus import RabbitBus
from berth.adapters.bus.rabbitmq.connection import BrokerConnection
from berth.adapters.bus.rabbitmq.leader_notifier import LeaderNotifier
from berth.adapters.bus.rabbitmq.notifier import RabbitNotifier

__all__ = ["BrokerConnection", "LeaderNotifier", "RabbitBroker", "RabbitBus", "RabbitNotifier"]
