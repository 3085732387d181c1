import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * A Kafka producer for {@code ackloss run --client}, with Kafka's own Java client
 * (docs/how-to/any-client.md).
 *
 * <pre>
 *   javac -cp 'libs/*' -d classes KafkaClient.java
 *   ackloss run clients/lose --client "java -cp classes:libs/* KafkaClient"
 * </pre>
 *
 * libs/ holds kafka-clients, slf4j-api and jackson-databind with what they need.
 */
public final class KafkaClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT =
        new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JsonNode setup = JSON.readTree(lines.readLine());
        JsonNode connection = setup.get("connection");
        String topic = connection.get("topic").asText();
        KafkaProducer<byte[], byte[]> producer;
        try {
            producer = new KafkaProducer<>(settings(setup));
            awaitTopic(producer, topic);
        } catch (RuntimeException error) {
            String why = String.valueOf(error.getMessage());
            say(Map.of("type", "failed", "error", why.substring(0, Math.min(200, why.length()))));
            return;
        }
        say(Map.of("type", "ready", "name", "kafka-clients", "version", version()));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode op = JSON.readTree(line);
            if (op.get("type").asText().equals("close")) {
                flush(producer);
                break;
            }
            send(producer, topic, op);
        }
        producer.close(Duration.ofSeconds(1));
    }

    /** The version of kafka-clients, where every version says it. */
    private static String version() throws IOException {
        Properties about = new Properties();
        try (InputStream file = KafkaClient.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            about.load(file);
        }
        return about.getProperty("version");
    }

    /** The plan's settings have this client's own names. */
    private static Properties settings(JsonNode setup) {
        JsonNode connection = setup.get("connection");
        String protocol = connection.at("/properties/security.protocol").asText("");
        if (!List.of("", "PLAINTEXT").contains(protocol)) {
            throw new IllegalArgumentException("this example speaks plain text, not " + protocol);
        }
        Properties settings = new Properties();
        connection.get("producer").fields()
            .forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        List<String> servers = new ArrayList<>();
        connection.get("bootstrap_servers").forEach(each -> servers.add(each.asText()));
        settings.put("bootstrap.servers", servers);
        settings.put("client.id", "ackloss-" + setup.get("client") + "." + setup.get("start"));
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        return settings;
    }

    /** A JVM that has just started may need longer than max.block.ms for its first answer. */
    private static void awaitTopic(KafkaProducer<byte[], byte[]> producer, String topic) {
        for (int left = 10; ; left--) {
            try {
                producer.partitionsFor(topic);
                return;
            } catch (TimeoutException error) {
                if (left == 0) {
                    throw error;
                }
            }
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, JsonNode op) {
        long id = op.get("id").asLong();
        byte[] value = String.format("%010d", op.get("value").asLong()).getBytes(StandardCharsets.UTF_8);
        byte[] key = op.has("key") ? op.get("key").asText().getBytes(StandardCharsets.UTF_8) : null;
        try {
            producer.send(
                new ProducerRecord<>(topic, op.get("partition").asInt(), key, value),
                (metadata, error) -> {
                    if (error != null) {
                        unknown(id, error);
                        return;
                    }
                    Map<String, Object> ok = new LinkedHashMap<>(Map.of("type", "ok", "id", id));
                    if (metadata.hasOffset()) {
                        ok.put("position", metadata.offset());
                    }
                    say(ok);
                });
        } catch (RuntimeException error) { // of `send` itself; the callback is not called then
            unknown(id, error);
        }
    }

    /** The error of the last attempt proves nothing about the attempts before it. */
    private static void unknown(long id, Exception error) {
        say(Map.of("type", "info", "id", id, "error", error.getClass().getSimpleName()));
    }

    /** For two seconds at most: `flush` itself has no limit. */
    private static void flush(KafkaProducer<byte[], byte[]> producer) throws InterruptedException {
        Thread flushing = new Thread(producer::flush);
        flushing.setDaemon(true);
        flushing.start();
        flushing.join(2000);
    }

    private static synchronized void say(Map<String, Object> line) {
        try {
            OUT.println(JSON.writeValueAsString(line));
            OUT.flush();
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
