-- Operations: an alert after too many errors, visits of the last minutes, finished sessions, and receipts.
-- The same app as examples/operations.py.

CREATE STREAM logs (service STRING KEY, level STRING, text STRING) WITH (KAFKA_TOPIC = 'logs', VALUE_FORMAT = 'JSON');
CREATE STREAM visits (visitor STRING KEY, page STRING) WITH (KAFKA_TOPIC = 'visits', VALUE_FORMAT = 'JSON');
CREATE STREAM purchases (number STRING KEY, customer STRING, cents INT)
    WITH (KAFKA_TOPIC = 'purchases', VALUE_FORMAT = 'JSON');

CREATE TABLE errors AS
    SELECT service, AS_VALUE(service) AS name, COUNT(*) AS n
    FROM logs WINDOW TUMBLING (SIZE 5 MINUTES, GRACE PERIOD 30 SECONDS)
    WHERE level = 'ERROR' GROUP BY service;
CREATE STREAM counted (service STRING KEY, name STRING, n BIGINT)
    WITH (KAFKA_TOPIC = 'ERRORS', VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '5 MINUTES');
CREATE STREAM alerts WITH (KAFKA_TOPIC = 'alerts', VALUE_FORMAT = 'KAFKA') AS
    SELECT service, CONCAT(name, ': ', CAST(n AS STRING), ' errors within 5 minutes') AS alert FROM counted WHERE n = 6;

CREATE TABLE visits_in_15_minutes AS
    SELECT page, COUNT(*) AS n
    FROM visits WINDOW HOPPING (SIZE 15 MINUTES, ADVANCE BY 1 MINUTE, RETENTION 1 HOUR, GRACE PERIOD 1 MINUTE)
    GROUP BY page;

CREATE TABLE sessions WITH (KAFKA_TOPIC = 'sessions', WRAP_SINGLE_VALUE = FALSE) AS
    SELECT visitor, COLLECT_LIST(page) AS pages
    FROM visits WINDOW SESSION (30 MINUTES, RETENTION 1 DAY, GRACE PERIOD 1 MINUTE)
    GROUP BY visitor EMIT FINAL;

CREATE STREAM receipts WITH (KAFKA_TOPIC = 'receipts', VALUE_FORMAT = 'KAFKA') AS
    SELECT number, CONCAT(customer, ' paid ', CAST(CAST(cents / 100.0 AS DECIMAL(10, 2)) AS STRING)) AS receipt
    FROM purchases;
