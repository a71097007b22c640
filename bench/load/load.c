/*
 * Load for a Kafka cluster, on librdkafka: one run, one line of JSON.
 *
 *     load produce SERVERS TOPIC PARTITIONS SIZE COUNT [property=value ...]
 *     load consume SERVERS TOPIC PARTITIONS COUNT
 *     load latency SERVERS TOPIC SIZE COUNT RATE       [property=value ...]
 *
 * Properties are librdkafka's. The exit code is 1 when a record was refused or did not come back.
 *
 * No consumer group is involved: partitions are read by the simple consumer, so that what is measured is Fetch.
 */

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH_MAX = 10000, POLL_EVERY = 1000, WARM_UP = 200 };

static const int64_t NS = 1000000000;
/* A run that takes longer than this hangs. */
static const int64_t RUN_NS_MAX = 180 * 1000000000LL;

static long delivered, refused;

/* ------------------------------------------------------------------------------------------- helpers */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS + t.tv_nsec;
}

static void sleep_until(int64_t due_ns) {
    struct timespec t = {due_ns / NS, due_ns % NS};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        delivered++;
    } else if (refused++ == 0) {
        fprintf(stderr, "load: a record was refused: %s\n", rd_kafka_err2str(message->err));
    }
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, key, value, error, sizeof error) != RD_KAFKA_CONF_OK) {
        fail(key, error);
    }
}

static rd_kafka_t *open_client(rd_kafka_type_t type, rd_kafka_conf_t *conf, const char *servers) {
    char error[256];
    set(conf, "bootstrap.servers", servers);
    rd_kafka_t *client = rd_kafka_new(type, conf, error, sizeof error);
    if (client == NULL) {
        fail("client", error);
    }
    return client;
}

static rd_kafka_t *open_producer(const char *servers, char **properties, int count) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    set(conf, "queue.buffering.max.messages", "1000000");
    set(conf, "queue.buffering.max.kbytes", "1000000");
    for (int i = 0; i < count; i++) {
        char *value = strchr(properties[i], '=');
        if (value == NULL) {
            fail(properties[i], "should be property=value");
        }
        *value = 0;
        set(conf, properties[i], value + 1);
    }
    return open_client(RD_KAFKA_PRODUCER, conf, servers);
}

static rd_kafka_t *open_consumer(const char *servers, const char *wait_ms) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "queued.min.messages", "1000000");
    set(conf, "fetch.wait.max.ms", wait_ms);
    return open_client(RD_KAFKA_CONSUMER, conf, servers);
}

/* The topic, once its leaders are known: looking for them is no part of what is timed. */
static rd_kafka_topic_t *open_topic(rd_kafka_t *client, const char *name) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, 10000);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        fail(name, rd_kafka_err2str(error));
    }
    rd_kafka_metadata_destroy(metadata);
    return topic;
}

static void start_reading(rd_kafka_topic_t *topic, int partition, int64_t offset, rd_kafka_queue_t *queue) {
    if (rd_kafka_consume_start_queue(topic, partition, offset, queue) != 0) {
        fail("consume", rd_kafka_err2str(rd_kafka_last_error()));
    }
}

/* ------------------------------------------------------------------------------------------- produce */

/* Bytes that no codec makes smaller. */
static char *noise(long size) {
    char *bytes = malloc(size);
    uint64_t state = 0x9E3779B97F4A7C15;
    for (long i = 0; i < size; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        bytes[i] = (char)(state >> 56);
    }
    return bytes;
}

static int produce(int argc, char **argv) {
    int partitions = atoi(argv[4]);
    long size = atol(argv[5]), count = atol(argv[6]);
    rd_kafka_t *client = open_producer(argv[2], argv + 7, argc - 7);
    rd_kafka_topic_t *topic = open_topic(client, argv[3]);
    char *value = noise(size);
    int64_t start = now_ns();
    for (long i = 0; i < count; i++) {
        while (rd_kafka_produce(topic, i % partitions, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL) != 0) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
                fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
            }
            rd_kafka_poll(client, 10);
        }
        if (i % POLL_EVERY == 0) {
            rd_kafka_poll(client, 0);
        }
    }
    rd_kafka_flush(client, RUN_NS_MAX / 1000000);
    double seconds = (double)(now_ns() - start) / NS;
    printf("{\"count\": %ld, \"refused\": %ld, \"seconds\": %.4f, \"records_s\": %.0f}\n", delivered, refused, seconds,
           delivered / seconds);
    return delivered != count;
}

/* ------------------------------------------------------------------------------------------- consume */

static int consume(char **argv) {
    int partitions = atoi(argv[4]);
    long count = atol(argv[5]), seen = 0;
    rd_kafka_t *client = open_consumer(argv[2], "100");
    rd_kafka_topic_t *topic = open_topic(client, argv[3]);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_message_t **batch = malloc(BATCH_MAX * sizeof *batch);
    int64_t start = now_ns();
    for (int i = 0; i < partitions; i++) {
        start_reading(topic, i, RD_KAFKA_OFFSET_BEGINNING, queue);
    }
    while (seen < count && now_ns() - start < RUN_NS_MAX) {
        long found = rd_kafka_consume_batch_queue(queue, 100, batch, BATCH_MAX);
        for (long i = 0; i < found; i++) {
            seen += batch[i]->err == RD_KAFKA_RESP_ERR_NO_ERROR;
            rd_kafka_message_destroy(batch[i]);
        }
    }
    double seconds = (double)(now_ns() - start) / NS;
    printf("{\"count\": %ld, \"seconds\": %.4f, \"records_s\": %.0f}\n", seen, seconds, seen / seconds);
    return seen < count;
}

/* ------------------------------------------------------------------------------------------- latency */

/* What a record of this mode begins with. */
struct stamp {
    int64_t number, sent_ns;
};

struct reading {
    rd_kafka_queue_t *queue;
    long count, seen;
    double *micros;
};

static void *read_stamps(void *argument) {
    struct reading *reading = argument;
    int64_t start = now_ns(), number = 0;
    while (number < WARM_UP + reading->count - 1 && now_ns() - start < RUN_NS_MAX) {
        rd_kafka_message_t *message = rd_kafka_consume_queue(reading->queue, 1000);
        if (message == NULL) {
            continue;
        }
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR && message->len >= sizeof(struct stamp)) {
            struct stamp stamp;
            memcpy(&stamp, message->payload, sizeof stamp);
            number = stamp.number;
            if (number >= WARM_UP) {
                reading->micros[reading->seen++] = (now_ns() - stamp.sent_ns) / 1e3;
            }
        }
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Records leave when they are due, whether or not earlier ones have come back: a stall counts for all it delays. */
static void send_stamps(rd_kafka_t *client, rd_kafka_topic_t *topic, long size, long count, double rate) {
    char *value = noise(size);
    int64_t start = now_ns();
    for (long i = 0; i < count; i++) {
        int64_t due = start + (int64_t)(i * NS / rate);
        sleep_until(due);
        struct stamp stamp = {i, now_ns()};
        memcpy(value, &stamp, sizeof stamp);
        rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL);
        rd_kafka_poll(client, 0);
    }
    rd_kafka_flush(client, RUN_NS_MAX / 1000000);
}

static int latency(int argc, char **argv) {
    long size = atol(argv[4]), count = atol(argv[5]);
    rd_kafka_t *producer = open_producer(argv[2], argv + 7, argc - 7);
    rd_kafka_topic_t *outgoing = open_topic(producer, argv[3]);
    rd_kafka_t *consumer = open_consumer(argv[2], "500");
    rd_kafka_topic_t *incoming = open_topic(consumer, argv[3]);
    int64_t low, high;
    rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(consumer, argv[3], 0, &low, &high, 10000);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        fail("offsets", rd_kafka_err2str(error));
    }
    struct reading reading = {rd_kafka_queue_new(consumer), count, 0, calloc(count, sizeof(double))};
    start_reading(incoming, 0, high, reading.queue);
    pthread_t reader;
    pthread_create(&reader, NULL, read_stamps, &reading);
    send_stamps(producer, outgoing, size > (long)sizeof(struct stamp) ? size : (long)sizeof(struct stamp),
                WARM_UP + count, atof(argv[6]));
    pthread_join(reader, NULL);
    if (reading.seen < count) {
        fail("latency", "records did not come back");
    }
    qsort(reading.micros, count, sizeof(double), by_size);
    printf("{\"count\": %ld, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", count, reading.micros[count / 2],
           reading.micros[count * 99 / 100], reading.micros[count - 1]);
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "produce") == 0 && argc >= 7) {
        return produce(argc, argv);
    }
    if (strcmp(mode, "consume") == 0 && argc == 6) {
        return consume(argv);
    }
    if (strcmp(mode, "latency") == 0 && argc >= 7) {
        return latency(argc, argv);
    }
    fprintf(stderr, "usage: load produce|consume|latency SERVERS TOPIC ... (see the top of load.c)\n");
    return 2;
}
