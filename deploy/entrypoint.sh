#!/bin/sh
# The roles of the image: a Spark master, a Spark worker, an executor on Kubernetes, or any command.
set -eu
SPARK_HOME=$(python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')
export SPARK_HOME

case "${1:-}" in
    spark-master)
        exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host "$(hostname)" --port 7077
        ;;
    spark-worker) # spark-worker MASTER
        exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker --work-dir /tmp/spark "$2"
        ;;
    executor) # as Spark starts it on Kubernetes, with its settings in the environment
        env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p' >/tmp/java-options
        exec java @/tmp/java-options "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
            -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
            --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
            --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
        ;;
    *) exec "$@" ;;
esac
