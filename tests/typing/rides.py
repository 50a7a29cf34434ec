"""Types that the programs in ``inferred`` and ``refused`` share."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Ride(msgspec.Struct):
    """A ride of a taxi."""

    ride_id: str
    zone: int
    price: float
    pickup_at: datetime
    promotion: str | None = None


class LongRide(Ride):
    """A ride that leaves the city."""

    exit: str = ""


class Zone(msgspec.Struct):
    """A zone of a city."""

    name: str
    borough: str
