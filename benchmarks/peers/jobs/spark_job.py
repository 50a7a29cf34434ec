"""Rides per zone and minute with Structured Streaming, entirely in the JVM; its Kafka sink is at least once."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

settings = os.environ
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", settings["SPARK_JARS"])
    .config("spark.driver.memory", "2g")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
lines = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", settings["BOOTSTRAP"])
    .option("subscribe", settings["SOURCE"])
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 100_000)
    .load()
)
schema = "ride_id string, vendor_id int, zone int, amount double, pickup long"
rides = lines.select(f.from_json(f.col("value").cast("string"), schema).alias("ride")).select("ride.*")
counts = (
    rides.where("amount > 1.0")
    .withColumn("time", f.timestamp_millis("pickup"))
    .withWatermark("time", f"{settings['GRACE_MS']} milliseconds")
    .groupBy("zone", f.window("time", "1 minute"))
    .count()
)
value = f.to_json(f.struct("zone", f.unix_millis("window.start").alias("start"), "count"))

if __name__ == "__main__":
    query = (
        counts.select(f.col("zone").cast("string").alias("key"), value.alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", settings["BOOTSTRAP"])
        .option("topic", settings["TARGET"])
        .option("checkpointLocation", settings["STATE_DIR"])
        .outputMode("update")
        .start()
    )
    query.awaitTermination()
