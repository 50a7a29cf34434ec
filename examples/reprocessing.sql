-- Reprocessing: the distance that each lorry has driven; some lorries report miles. The same app as version two of
-- examples/reprocessing.py. To change the sum of a running app: millstream replay examples/reprocessing.sql --as driven-2

CREATE STREAM trips (lorry STRING KEY, length DOUBLE, unit STRING) WITH (KAFKA_TOPIC = 'trips', VALUE_FORMAT = 'JSON');

CREATE TABLE driven WITH (KAFKA_TOPIC = 'driven', WRAP_SINGLE_VALUE = FALSE) AS
    SELECT lorry, SUM(length * CASE WHEN unit = 'mi' THEN 1.609 ELSE 1.0 END) AS kilometres
    FROM trips GROUP BY lorry;
