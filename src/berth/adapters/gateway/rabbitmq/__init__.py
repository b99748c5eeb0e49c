"""Sessions of agents over RabbitMQ; both ends need the extra `berth-scheduler[rabbitmq]`."""

from berth.adapters.gateway.rabbitmq.client import broker_connector
from berth.adapters.gateway.rabbitmq.server import BrokerSessions, ControlSigner

__all__ = ["BrokerSessions", "ControlSigner", "broker_connector"]
