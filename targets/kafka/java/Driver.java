import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's producer at the other end of a TCP connection: one producer lives as long as one
 * connection. The lines of it, which {@code clients/java.py} speaks too:
 *
 * <pre>
 *   there  topic NAME                   back  set KEY=VALUE ...     what the producer has, all of it
 *          set KEY=VALUE ...
 *          begin                              ready | refused WHY | failed WHY
 *          ID PARTITION VALUE [=KEY]          ID ok OFFSET | ID error NAME CODE
 *          close                              closed                nothing was or will be sent
 * </pre>
 *
 * {@code refused}: a setting is wrong, and always will be; {@code failed}: not now. When the
 * connection ends, the producer is closed at once, and what it has not sent is dropped.
 * Keys are written as in a URL, so that they may be empty or hold blanks.
 */
public final class Driver {
    /** What is done with the producer of a connection. */
    interface Connection {
        void serve(BufferedReader lines, KafkaProducer<byte[], byte[]> producer, String topic,
            Answers answers) throws IOException;
    }

    public static void main(String[] args) throws IOException {
        listen(Integer.parseInt(args[0]), "driver", Driver::sendAll);
    }

    /** Serves each connection in a thread of its own, for ever. */
    static void listen(int port, String name, Connection kind) throws IOException {
        try (ServerSocket server = new ServerSocket(port)) {
            while (true) {
                Socket socket = server.accept();
                new Thread(() -> serve(socket, kind), name + " " + socket.getRemoteSocketAddress())
                    .start();
            }
        }
    }

    private static void serve(Socket socket, Connection kind) {
        try (socket) {
            socket.setTcpNoDelay(true);
            BufferedReader lines = new BufferedReader(
                new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            Answers answers = new Answers(socket.getOutputStream());
            try {
                serve(lines, answers, kind);
            } finally {
                answers.end();
            }
        } catch (IOException gone) {
            System.out.println("connection lost: " + gone);
        }
    }

    private static void serve(BufferedReader lines, Answers answers, Connection kind)
            throws IOException {
        Properties settings = new Properties();
        String topic = setUp(lines, settings);
        if (topic == null) {
            return;
        }
        KafkaProducer<byte[], byte[]> producer = producer(settings, topic, answers);
        if (producer == null) {
            return;
        }
        try {
            kind.serve(lines, producer, topic, answers);
        } finally {
            producer.close(Duration.ZERO);  // its thread has ended: what was under way is answered
            answers.add("closed");
        }
    }

    private static void sendAll(
            BufferedReader lines, KafkaProducer<byte[], byte[]> producer, String topic,
            Answers answers) throws IOException {
        String line = lines.readLine();
        for (; line != null && !line.equals("close"); line = lines.readLine()) {
            send(line.split(" "), producer, topic, answers);
        }
    }

    private static void send(
            String[] parts, KafkaProducer<byte[], byte[]> producer, String topic,
            Answers answers) {
        byte[] value = parts[2].getBytes(StandardCharsets.UTF_8);
        byte[] key = parts.length > 3 ? key(parts[3].substring(1)) : null;
        AtomicBoolean answered = new AtomicBoolean();
        Callback answer = (metadata, error) -> {
            if (answered.getAndSet(true)) {
                return;  // only the first answer to a write counts
            }
            answers.add(parts[0] + (error == null
                ? " ok " + (metadata.hasOffset() ? metadata.offset() : -1)
                : " error " + named(error) + " " + Errors.forException(error).code()));
        };
        try {
            producer.send(
                new ProducerRecord<>(topic, Integer.valueOf(parts[1]), key, value), answer);
        } catch (RuntimeException error) {
            answer.onCompletion(null, error);
        }
    }

    private static byte[] key(String written) {
        String key = URLDecoder.decode(written, StandardCharsets.UTF_8);
        return key.getBytes(StandardCharsets.UTF_8);
    }

    /** What is said up to {@code begin}: settings, and the topic; null where it does not begin. */
    private static String setUp(BufferedReader lines, Properties settings) throws IOException {
        String topic = null;
        for (String line = lines.readLine(); !"begin".equals(line); line = lines.readLine()) {
            if (line == null) {
                return null;
            }
            if (line.startsWith("topic ")) {
                topic = line.substring("topic ".length());
            } else {
                String[] pair = line.substring("set ".length()).split("=", 2);
                settings.put(pair[0], pair[1]);
            }
        }
        return topic;
    }

    /** A producer that knows the topic's leaders, or null when it could not be. */
    private static KafkaProducer<byte[], byte[]> producer(
            Properties settings, String topic, Answers answers) {
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        KafkaProducer<byte[], byte[]> producer = null;
        try {
            Map<String, ?> has = new TreeMap<>(new ProducerConfig(settings).values());
            producer = new KafkaProducer<>(settings);
            producer.partitionsFor(topic);
            has.forEach((key, value) -> answers.add("set " + key + "=" + text(value)));
            answers.add("ready");
            return producer;
        } catch (RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null && !(cause instanceof ConfigException)) {
                cause = cause.getCause();
            }
            String word = cause instanceof ConfigException ? "refused " : "failed ";
            answers.add(word + String.valueOf(cause.getMessage()).replaceAll("\\s+", " "));
            if (producer != null) {
                producer.close(Duration.ZERO);
            }
            return null;
        }
    }

    /** An error by the name that the protocol has for it, or else by Java's. */
    static String named(Exception error) {
        Errors known = Errors.forException(error);
        boolean named = known != Errors.UNKNOWN_SERVER_ERROR;
        return named ? known.name() : error.getClass().getSimpleName();
    }

    private static String text(Object value) {
        if (value instanceof List) {
            return String.join(",", ((List<?>) value).stream().map(Driver::text).toList());
        }
        return value instanceof Class ? ((Class<?>) value).getName() : String.valueOf(value);
    }

    /** Lines back, written by a thread of its own: the producer's thread must wait for nobody. */
    static final class Answers implements Runnable {
        private final OutputStream stream;
        private final Thread writer = new Thread(this, "answers");
        private StringBuilder waiting = new StringBuilder();
        private boolean ended;

        Answers(OutputStream stream) {
            this.stream = stream;
            writer.start();
        }

        synchronized void add(String line) {
            waiting.append(line).append('\n');
            notifyAll();
        }

        /** Write what waits, then nothing more. */
        void end() {
            synchronized (this) {
                ended = true;
                notifyAll();
            }
            try {
                writer.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        private synchronized String next() throws InterruptedException {
            while (waiting.length() == 0 && !ended) {
                wait();
            }
            String lines = waiting.toString();
            waiting = new StringBuilder();
            return lines;
        }

        @Override
        public void run() {
            try {
                for (String lines = next(); !lines.isEmpty(); lines = next()) {
                    stream.write(lines.getBytes(StandardCharsets.UTF_8));
                    stream.flush();
                }
            } catch (IOException | InterruptedException gone) {
                System.out.println("answers are not heard any more: " + gone);
            }
        }
    }
}
