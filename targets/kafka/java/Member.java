import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's consumer at the other end of a TCP connection: a consumer lives as long as one connection,
 * and there is one at a time. What it does is what {@code loop.py} says, and it reports it in
 * its lines, in the thread that consumes: what was reported before the process is
 * killed has been handed to the kernel.
 *
 * <pre>
 *   there  topic NAME
 *          partitions N,N ...           without a group protocol
 *          commit after|before|async|auto
 *          commit_partitions own|read
 *          process_ns N
 *          batch N
 *          set KEY=VALUE ...
 *          begin
 *          leave                        later: after its batch
 * </pre>
 *
 * Where the connection ends without {@code leave}, the harness is gone, and the process ends too.
 * {@code System.nanoTime} is the clock that all processes of a machine share, as in Python.
 */
public final class Member implements ConsumerRebalanceListener {
    private static final int AT_ONCE = 60;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration COMMITTED = Duration.ofSeconds(10);
    private static final Duration CLOSE = Duration.ofSeconds(10);
    /** Less than the wait between two attempts (retry.backoff.ms): whatever ended sooner had one. */
    private static final long ONE_ATTEMPT_NS = 50_000_000;

    /** The one of this process, for what Kafka makes by itself. */
    private static volatile Member now;

    private final Map<String, String> setup = new HashMap<>();
    private final Properties settings = new Properties();
    private final OutputStream stream;
    private final Map<Integer, Long> starts = new HashMap<>();
    private final Map<Integer, Long> passed = new HashMap<>();
    private final Map<Integer, Long> read = new HashMap<>();
    private final Map<Integer, Long> assignedAt = new HashMap<>();
    private final Map<Integer, TreeMap<Long, Long>> handed = new HashMap<>();
    private KafkaConsumer<byte[], byte[]> consumer;
    private String member;
    private Integer generation;
    private volatile boolean leaving;
    private volatile boolean over;

    private Member(OutputStream stream) {
        this.stream = stream;
    }

    public static void main(String[] args) throws IOException {
        try (ServerSocket server = new ServerSocket(Integer.parseInt(args[0]))) {
            while (true) {
                try (Socket socket = server.accept()) {
                    serve(socket);
                }
            }
        }
    }

    private static void serve(Socket socket) throws IOException {
        socket.setTcpNoDelay(true);
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        Member member = new Member(socket.getOutputStream());
        if (member.isSetUp(lines)) {
            now = member;
            Thread listener = new Thread(() -> member.listen(lines), "listener");
            listener.setDaemon(true);
            listener.start();
            member.live();
        }
    }

    private boolean isSetUp(BufferedReader lines) throws IOException {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("begin")) {
                return true;
            }
            String[] words = line.split(" ", 2);
            if (words[0].equals("set")) {
                String[] pair = words[1].split("=", 2);
                settings.put(pair[0], pair[1]);
            } else {
                setup.put(words[0], words[1]);
            }
        }
        return false;
    }

    private void listen(BufferedReader lines) {
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                leaving = leaving || line.equals("leave");
            }
        } catch (IOException gone) {
            System.out.println("connection lost: " + gone);
        }
        if (!over && !leaving) {
            Runtime.getRuntime().halt(1);
        }
    }

    private void live() {
        String error = null;
        try {
            begin();
            while (!leaving) {
                List<ConsumerRecord<byte[], byte[]>> batch = poll();
                if (!batch.isEmpty()) {
                    take(batch);
                }
            }
            starts.forEach((partition, start) -> {
                Long position = passed.getOrDefault(partition, start);
                if (position != null) {
                    say("position", List.of(where(partition, position, null)));
                }
            });
        } catch (RuntimeException failed) {
            failed.printStackTrace(System.out);
            error = named(failed) + ": " + failed.getMessage();
        }
        end(error == null ? CLOSE : Duration.ZERO);
        long at = System.nanoTime();
        over = true;
        say("stop", List.of(), at, error == null ? "ok" : "info", error);
    }

    private void begin() {
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("interceptor.classes", Kept.class.getName());
        consumer = new KafkaConsumer<>(settings);
        say("start", List.of());
        if (!setup.containsKey("partitions")) {
            consumer.subscribe(List.of(setup.get("topic")), this);
            return;
        }
        List<TopicPartition> own = new ArrayList<>();
        for (String number : setup.get("partitions").split(",")) {
            if (!number.isEmpty()) {
                own.add(place(Integer.parseInt(number)));
            }
        }
        consumer.assign(own);
        onPartitionsAssigned(own);
    }

    private void end(Duration timeout) {
        try {
            if (consumer != null) {
                consumer.close(timeout);
            }
        } catch (RuntimeException failed) {
            failed.printStackTrace(System.out);
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> poll() {
        long begun = System.nanoTime();
        ConsumerRecords<byte[], byte[]> found = consumer.poll(POLL);
        identify();
        List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : found) {
            batch.add(record);
            handed.computeIfAbsent(record.partition(), each -> new TreeMap<>())
                .putIfAbsent(record.offset() + 1, begun);
        }
        return batch;
    }

    private void take(List<ConsumerRecord<byte[], byte[]>> batch) {
        List<String> all = new ArrayList<>();
        Map<Integer, Long> following = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : batch) {
            all.add(where(record));
            following.put(record.partition(), record.offset() + 1);
        }
        say("deliver", all);
        if (commits("before")) {
            commit(following);
        }
        for (ConsumerRecord<byte[], byte[]> record : batch) {
            long begun = System.nanoTime();
            pause(Long.parseLong(setup.get("process_ns")));
            say("process", List.of(where(record)), begun, "ok", null);
        }
        passed.putAll(following);
        if (commits("after") || commits("async")) {
            commit(following);
        }
    }

    private static void pause(long nanos) {
        long until = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private boolean commits(String how) {
        return setup.get("commit").equals(how);
    }

    /** Commit offsets of the partitions that are still its own; or of all that it has read. */
    private void commit(Map<Integer, Long> offsets) {
        List<String> all = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> places = new HashMap<>();
        boolean own = setup.get("commit_partitions").equals("own");
        read.putAll(offsets);
        (own ? offsets : read).forEach((partition, offset) -> {
            if (!own || starts.containsKey(partition)) {
                all.add(where(partition, offset, null));
                places.put(place(partition), new OffsetAndMetadata(offset));
            }
        });
        if (places.isEmpty()) {
            return;
        }
        long begun = System.nanoTime();
        say("commit", all, begun, "invoke", null);
        if (commits("async")) {  // one attempt: the library does not send it again
            consumer.commitAsync(places, (kept, error) -> answered(kept, error, begun, true));
            return;
        }
        RuntimeException error = null;
        try {
            consumer.commitSync(places);
        } catch (KafkaException failed) {
            error = failed;
        }
        answered(places, error, begun, System.nanoTime() - begun < ONE_ATTEMPT_NS);
    }

    /** How a commit ended; only the answer to the only attempt refuses it. */
    private void answered(
            Map<TopicPartition, OffsetAndMetadata> places, Exception error, long begun,
            boolean once) {
        List<String> all = new ArrayList<>();
        places.forEach((place, kept) -> all.add(where(place.partition(), kept.offset(), null)));
        boolean refused = once && (error instanceof CommitFailedException
            || error instanceof RebalanceInProgressException
            || error instanceof FencedInstanceIdException);
        String type = error == null ? "ok" : refused ? "fail" : "info";
        say("commit", all, begun, type, error == null ? null : named(error));
    }

    /** What the library has committed by itself: it began when the record below was handed over, or
     * later. */
    private void kept(Map<TopicPartition, OffsetAndMetadata> places) {
        if (commits("auto")) {
            places.forEach((place, kept) -> {
                TreeMap<Long, Long> batches =
                    handed.getOrDefault(place.partition(), new TreeMap<>());
                Map.Entry<Long, Long> batch = batches.ceilingEntry(kept.offset());
                long begun = batch == null ? assignedAt.get(place.partition()) : batch.getValue();
                batches.headMap(kept.offset()).clear();
                answered(Map.of(place, kept), null, begun, false);
            });
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
        if (assigned.isEmpty()) {
            return;
        }
        identify();
        long begun = System.nanoTime();
        Map<TopicPartition, OffsetAndMetadata> known = Map.of();
        String error = null;
        try {
            known = consumer.committed(new HashSet<>(assigned), COMMITTED);
        } catch (KafkaException failed) {
            error = named(failed);
        }
        List<String> all = new ArrayList<>();
        for (TopicPartition each : assigned) {
            OffsetAndMetadata kept = known.get(each);
            Long start = kept == null ? null : kept.offset();
            all.add(where(each.partition(), start, null));
            starts.put(each.partition(), start);
            passed.remove(each.partition());
            assignedAt.put(each.partition(), begun);
        }
        say("committed", all, begun, error == null ? "ok" : "info", error);
        say("assign", all, begun, "ok", null);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        revoked(revoked, null);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> lost) {
        revoked(lost, "lost");
    }

    private void revoked(Collection<TopicPartition> revoked, String error) {
        List<String> all = new ArrayList<>();
        for (TopicPartition each : revoked) {
            all.add(where(each.partition(), passed.get(each.partition()), null));
            starts.remove(each.partition());
        }
        if (!all.isEmpty()) {
            say("revoke", all, System.nanoTime(), "ok", error);
        }
    }

    private void identify() {
        ConsumerGroupMetadata known = consumer.groupMetadata();
        member = known.memberId().isEmpty() ? null : known.memberId();
        generation = known.generationId() < 0 ? null : known.generationId();
    }

    private TopicPartition place(int partition) {
        return new TopicPartition(setup.get("topic"), partition);
    }

    private static String where(ConsumerRecord<byte[], byte[]> record) {
        String value = new String(record.value(), StandardCharsets.UTF_8);
        return where(record.partition(), record.offset(), Long.valueOf(value));
    }

    private static String where(int partition, Long offset, Long value) {
        return "[" + partition + "," + offset + "," + value + "]";
    }

    private static String named(Exception error) {
        return error.getClass().getSimpleName();
    }

    private void say(String what, List<String> where) {
        say(what, where, System.nanoTime(), "ok", null);
    }

    private synchronized void say(
            String what, List<String> where, long begun, String type, String error) {
        long ended = Math.max(begun, System.nanoTime());
        StringBuilder lines = new StringBuilder();
        for (int first = 0; first < Math.max(1, where.size()); first += AT_ONCE) {
            List<String> some = where.subList(first, Math.min(where.size(), first + AT_ONCE));
            lines.append("[\"").append(what).append("\",").append(begun).append(',').append(ended)
                .append(",\"").append(type).append("\",").append(quoted(member)).append(',')
                .append(generation).append(',').append(quoted(error)).append(",[")
                .append(String.join(",", some)).append("]]\n");
        }
        try {
            stream.write(lines.toString().getBytes(StandardCharsets.UTF_8));
            stream.flush();
        } catch (IOException gone) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        return '"' + text.replaceAll("[\\p{Cntrl}\"\\\\]+", " ") + '"';
    }

    /** Kafka calls it for each commit that was kept, its own ones too. */
    public static final class Kept implements ConsumerInterceptor<byte[], byte[]> {
        @Override
        public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
            return records;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            now.kept(offsets);
        }

        @Override
        public void close() {
        }

        @Override
        public void configure(Map<String, ?> configs) {
        }
    }
}
