# SPDX-License-Identifier: Apache-2.0
"""A cluster of Kafka brokers in this process, those of librdkafka's own tests, and all that they have."""
import collections
import ctypes
import ctypes.util

PRODUCE, NOT_LEADER, OUT_OF_ORDER = 0, 6, 45
PRODUCER, CONSUMER = 0, 1
PARTITION_EOF = -191
LIBRARY = ctypes.util.find_library("rdkafka")
POINTER, SIZE, CHARS, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int

Message = collections.namedtuple("Message", "partition key headers value")


class RawMessage(ctypes.Structure):
    _fields_ = [("error", INT), ("topic", POINTER), ("partition", ctypes.c_int32), ("payload", POINTER),
                ("bytes", SIZE), ("key", POINTER), ("key_bytes", SIZE), ("offset", ctypes.c_int64), ("own", POINTER)]


def library():
    kafka = ctypes.CDLL(LIBRARY)
    for name, result, *arguments in (
            ("conf_new", POINTER), ("new", POINTER, INT, POINTER, POINTER, SIZE), ("destroy", None, POINTER),
            ("conf_set", INT, POINTER, CHARS, CHARS, POINTER, SIZE),
            ("mock_cluster_new", POINTER, POINTER, INT), ("mock_cluster_destroy", None, POINTER),
            ("mock_cluster_bootstraps", CHARS, POINTER), ("mock_topic_create", INT, POINTER, CHARS, INT, INT),
            ("mock_broker_set_down", INT, POINTER, INT), ("mock_broker_set_up", INT, POINTER, INT),
            ("mock_push_request_errors_array", None, POINTER, ctypes.c_int16, SIZE, POINTER),
            ("topic_partition_list_new", POINTER, INT), ("topic_partition_list_destroy", None, POINTER),
            ("topic_partition_list_add", POINTER, POINTER, CHARS, ctypes.c_int32), ("assign", INT, POINTER, POINTER),
            ("consumer_poll", ctypes.POINTER(RawMessage), POINTER, INT), ("consumer_close", INT, POINTER),
            ("message_headers", INT, POINTER, POINTER), ("message_destroy", None, POINTER),
            ("header_get_all", INT, POINTER, SIZE, POINTER, POINTER, POINTER)):
        function = getattr(kafka, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return kafka


class Cluster:
    """Three brokers; a topic "lidar" of two partitions."""
    N_BROKERS, N_PARTITIONS = 3, 2

    def __init__(self):
        self.kafka = library()
        self.handle = self.client(PRODUCER)
        self.cluster = self.kafka.rd_kafka_mock_cluster_new(self.handle, self.N_BROKERS)
        self.brokers = self.kafka.rd_kafka_mock_cluster_bootstraps(self.cluster).decode()
        assert self.kafka.rd_kafka_mock_topic_create(self.cluster, b"lidar", self.N_PARTITIONS, self.N_BROKERS) == 0

    def close(self):
        self.kafka.rd_kafka_mock_cluster_destroy(self.cluster)
        self.kafka.rd_kafka_destroy(self.handle)

    def client(self, kind, **properties):
        conf, error = self.kafka.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
        for key, value in properties.items():
            done = self.kafka.rd_kafka_conf_set(conf, key.replace("_", ".").encode(), value.encode(), error, 512)
            assert done == 0, error.value
        handle = self.kafka.rd_kafka_new(kind, conf, error, 512)
        assert handle, error.value
        return handle

    def set_up(self, is_up):
        change = self.kafka.rd_kafka_mock_broker_set_up if is_up else self.kafka.rd_kafka_mock_broker_set_down
        for broker in range(1, self.N_BROKERS + 1):
            assert change(self.cluster, broker) == 0

    def refuse(self, *errors):
        """The next requests with messages fail so."""
        self.kafka.rd_kafka_mock_push_request_errors_array(self.cluster, PRODUCE, len(errors),
                                                           (INT * len(errors))(*errors))

    def headers(self, raw):
        headers, name, value, size = POINTER(), CHARS(), POINTER(), SIZE()
        found, at = {}, 0
        if self.kafka.rd_kafka_message_headers(raw, ctypes.byref(headers)) != 0:
            return found
        while self.kafka.rd_kafka_header_get_all(headers, at, ctypes.byref(name), ctypes.byref(value),
                                                 ctypes.byref(size)) == 0:
            found[name.value.decode()] = ctypes.string_at(value.value, size.value)
            at += 1
        return found

    def read(self, topic="lidar"):
        """All messages of a topic: those of one partition in their order."""
        consumer = self.client(CONSUMER, bootstrap_servers=self.brokers, group_id="test", enable_partition_eof="true",
                               enable_auto_commit="false", auto_offset_reset="earliest")
        places = self.kafka.rd_kafka_topic_partition_list_new(self.N_PARTITIONS)
        for partition in range(self.N_PARTITIONS):
            self.kafka.rd_kafka_topic_partition_list_add(places, topic.encode(), partition)
        assert self.kafka.rd_kafka_assign(consumer, places) == 0
        self.kafka.rd_kafka_topic_partition_list_destroy(places)
        messages, n_ended = [], 0
        while n_ended < self.N_PARTITIONS:
            raw = self.kafka.rd_kafka_consumer_poll(consumer, 10_000)
            assert raw, "no answer of the brokers"
            if raw[0].error == PARTITION_EOF:
                n_ended += 1
            else:
                assert raw[0].error == 0
                messages.append(Message(raw[0].partition, ctypes.string_at(raw[0].key, raw[0].key_bytes).decode(),
                                        self.headers(raw), ctypes.string_at(raw[0].payload, raw[0].bytes)))
            self.kafka.rd_kafka_message_destroy(raw)
        self.kafka.rd_kafka_consumer_close(consumer)
        self.kafka.rd_kafka_destroy(consumer)
        return messages
