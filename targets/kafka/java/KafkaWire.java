import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * Kafka's headers: API key, version, correlation id, client id. So much is alike in every version;
 * what is behind them, KafkaMessages knows, from Kafka 3.0 on.
 */
public class KafkaWire implements Wire {
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
        return false;
    }

    @Override
    public byte[] refusal(Request request, byte[] frame, int code) {
        return null;
    }

    @Override
    public byte[] failed(Request request, byte[] answer, int code) {
        return answer;
    }
}
