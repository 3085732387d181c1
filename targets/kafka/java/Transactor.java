import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's transactional producer at the other end of a TCP connection: one producer lives as long as
 * one connection. It begins as in {@code Driver}, and then hears and says these lines:
 *
 * <pre>
 *   there  init | transaction | commit | abort       back  done | failed NAME
 *          offsets TOPIC GENERATION GROUP MEMBER PARTITION=OFFSET,...       done | failed NAME
 *          send TOPIC PARTITION VALUE                      VALUE sent OFFSET | VALUE unsent NAME
 * </pre>
 *
 * When the connection ends, the producer is closed at once: it sends nothing more, and no abort
 * either, as one whose process is gone.
 */
public final class Transactor {
    private final KafkaProducer<byte[], byte[]> producer;
    private final Driver.Answers answers;

    private Transactor(KafkaProducer<byte[], byte[]> producer, Driver.Answers answers) {
        this.producer = producer;
        this.answers = answers;
    }

    public static void main(String[] args) throws IOException {
        Driver.listen(Integer.parseInt(args[0]), "transactor", (lines, producer, topic, answers) -> {
            Transactor one = new Transactor(producer, answers);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                one.take(line.split(" "));
            }
        });
    }

    private void take(String[] words) {
        try {
            switch (words[0]) {
                case "send":
                    send(words[1], Integer.valueOf(words[2]), words[3]);
                    return;
                case "init":
                    producer.initTransactions();
                    break;
                case "transaction":
                    producer.beginTransaction();
                    break;
                case "offsets":
                    store(words);
                    break;
                case "commit":
                    producer.commitTransaction();
                    break;
                case "abort":
                    producer.abortTransaction();
                    break;
                default:
                    throw new IllegalArgumentException(words[0]);
            }
            answers.add("done");
        } catch (RuntimeException error) {
            answers.add("failed " + Driver.named(error));
        }
    }

    private void send(String topic, Integer partition, String value) {
        byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
        try {
            producer.send(new ProducerRecord<>(topic, partition, null, bytes), (kept, error) ->
                answers.add(error == null
                    ? value + " sent " + kept.offset()
                    : value + " unsent " + Driver.named(error)));
        } catch (RuntimeException error) {
            answers.add(value + " unsent " + Driver.named(error));
        }
    }

    private void store(String[] words) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (String each : words[5].split(",")) {
            String[] pair = each.split("=");
            offsets.put(
                new TopicPartition(words[1], Integer.parseInt(pair[0])),
                new OffsetAndMetadata(Long.parseLong(pair[1])));
        }
        producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(
            words[3], Integer.parseInt(words[2]), words[4], Optional.empty()));
    }
}
