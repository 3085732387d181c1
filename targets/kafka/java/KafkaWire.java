import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * Kafka's headers: API key, version, correlation id, client id. So much is alike in every version;
 * what is behind them, KafkaMessages knows, where it was compiled (Kafka 3.0 and later).
 */
public final class KafkaWire implements Wire {
    /** What is behind the headers. */
    interface Messages {
        boolean concerns(Request request, byte[] frame, String subject);

        byte[] refusal(Request request, byte[] frame, int code);

        byte[] failed(Request request, byte[] answer, int code);
    }

    private final Messages messages = messages();

    private static Messages messages() {
        try {
            Class<?> found = Class.forName("KafkaMessages");
            return (Messages) found.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException absent) {
            return null;
        }
    }

    @Override
    public Request request(byte[] frame, long nth) {
        if (frame.length < 10) return null;
        ByteBuffer header = ByteBuffer.wrap(frame);
        int api = header.getShort();
        int version = header.getShort();
        int id = header.getInt();
        int length = header.getShort();
        if (length < 0 || length > header.remaining()) return new Request(api, version, id, "");
        String client = new String(frame, header.position(), length, StandardCharsets.UTF_8);
        return new Request(api, version, id, client);
    }

    @Override
    public Long answered(byte[] first, long nth) {
        return first.length < 4 ? null : (long) ByteBuffer.wrap(first).getInt();
    }

    @Override
    public boolean concerns(Request request, byte[] frame, String subject) {
        return messages != null && messages.concerns(request, frame, subject);
    }

    @Override
    public byte[] refusal(Request request, byte[] frame, int code) {
        return messages == null ? null : messages.refusal(request, frame, code);
    }

    @Override
    public byte[] failed(Request request, byte[] answer, int code) {
        return messages == null ? answer : messages.failed(request, answer, code);
    }
}
