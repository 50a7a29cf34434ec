"""Taxi rides: trips per vendor, and rides sent to one of two topics by their price.

millstream run examples/taxi_rides.py
millstream tables scan trips_per_vendor --app taxi-rides
millstream consume rides.high_amount --from-beginning
"""

from datetime import datetime

import msgspec

from millstream import App


class TaxiRide(msgspec.Struct):
    """A ride as it stands in the topic, as JSON."""

    ride_id: str
    vendor_id: int
    pickup_at: datetime
    total_amount: float
    zone: int


app = App("taxi-rides")

rides = app.stream("rides", value=TaxiRide, timestamp=lambda ride: ride.pickup_at)

per_vendor = rides.group_by(lambda ride: ride.vendor_id).count(name="trips_per_vendor")
per_vendor.to_stream().to("trips-per-vendor")

(
    rides.split()
    .branch(lambda ride: ride.total_amount >= 40, lambda expensive: expensive.to("rides.high_amount"))
    .default(lambda cheap: cheap.to("rides.low_amount"))
)

if __name__ == "__main__":
    app.main()
