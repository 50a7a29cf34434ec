-- Taxi rides: trips per vendor, trips per vendor and minute, and rides routed to one of two topics by price.
-- The same app as examples/taxi_rides.py, except for its topic of late rides.

CREATE STREAM rides (
        id STRING KEY, ride_id STRING, vendor_id INT, pickup_at STRING, total_amount DOUBLE, zone INT
    ) WITH (
        KAFKA_TOPIC = 'rides', VALUE_FORMAT = 'JSON',
        TIMESTAMP = 'pickup_at', TIMESTAMP_FORMAT = 'yyyy-MM-dd''T''HH:mm:ss[.SSSSSS]X'
    );

CREATE TABLE trips_per_vendor WITH (KAFKA_TOPIC = 'trips-per-vendor', KEY_FORMAT = 'JSON', WRAP_SINGLE_VALUE = FALSE) AS
    SELECT vendor_id, COUNT(*) AS trips FROM rides GROUP BY vendor_id;

CREATE TABLE trips_per_minute AS
    SELECT vendor_id, COUNT(*) AS trips
    FROM rides WINDOW TUMBLING (SIZE 1 MINUTE, RETENTION 10 MINUTES, GRACE PERIOD 30 SECONDS)
    GROUP BY vendor_id;

CREATE STREAM high_amount WITH (KAFKA_TOPIC = 'rides.high_amount') AS SELECT * FROM rides WHERE total_amount >= 40;
CREATE STREAM low_amount WITH (KAFKA_TOPIC = 'rides.low_amount') AS SELECT * FROM rides WHERE total_amount < 40;
