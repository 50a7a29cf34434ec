"""Messages of other brokers: MQTT, RabbitMQ and queues of SQS. Each is acknowledged when its record is durable."""

from __future__ import annotations

from millstream.connectors.queue_sources.mqtt import Mqtt
from millstream.connectors.queue_sources.rabbitmq import RabbitMq
from millstream.connectors.queue_sources.sqs import Sqs

__all__ = ["Mqtt", "RabbitMq", "Sqs"]
