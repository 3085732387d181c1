import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.RequestAndSize;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * Kafka's messages by the node's own kafka-clients: so every API's error answers are those of its
 * version. By reflection where signatures differ between versions (ByteBuffer until 3.9, Readable
 * from 4.0 on).
 */
public final class KafkaMessages extends KafkaWire {
    private static final Method PARSE = method(AbstractRequest.class, "parseRequest", 3);

    /** Have the schemas of all messages loaded beforehand: the first one takes a second. */
    public KafkaMessages() {
        Proxy.daemon("schemas", ApiKeys::values);
    }

    private static Method method(Class<?> owner, String name, int parameters) {
        for (Method each : owner.getMethods()) {
            if (each.getName().equals(name) && each.getParameterCount() == parameters) return each;
        }
        throw new IllegalStateException(owner + " has no " + name);
    }

    private static AbstractRequest parsed(Wire.Request request, byte[] frame) {
        ByteBuffer bytes = ByteBuffer.wrap(frame);
        RequestHeader header = RequestHeader.parse(bytes);
        boolean old = PARSE.getParameterTypes()[2] == ByteBuffer.class;
        Object body = old ? bytes : new ByteBufferAccessor(bytes);
        try {
            return ((RequestAndSize) PARSE.invoke(null, header.apiKey(), header.apiVersion(), body))
                .request;
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static RequestHeader header(Wire.Request request) {
        return new RequestHeader(ApiKeys.forId(request.api()), (short) request.version(),
            request.client(), (int) request.id());
    }

    private static byte[] written(Wire.Request request, AbstractResponse response) {
        ResponseHeader header = header(request).toResponseHeader();
        short version = (short) request.version();
        ObjectSerializationCache cache = new ObjectSerializationCache();
        Message head = header.data();
        Message body = response.data();
        int size = head.size(cache, header.headerVersion()) + body.size(cache, version);
        ByteBuffer bytes = ByteBuffer.allocate(size);
        ByteBufferAccessor to = new ByteBufferAccessor(bytes);
        head.write(to, cache, header.headerVersion());
        body.write(to, cache, version);
        return bytes.array();
    }

    /** By the topic's name or its id, whichever the version carries; ids end where they are listed. */
    @Override
    public boolean concerns(Wire.Request request, byte[] frame, String subject) {
        String text = parsed(request, frame).data().toString();
        return text.contains("'" + subject + "'")
            || text.contains("topicId=" + subject + ",")
            || text.contains("topicId=" + subject + ")");
    }

    @Override
    public byte[] refusal(Wire.Request request, byte[] frame, int code) {
        AbstractRequest given = parsed(request, frame);
        if (given instanceof ProduceRequest produce && produce.acks() == 0) return null;
        Throwable error = Errors.forCode((short) code).exception();
        return written(request, given.getErrorResponse(0, error));
    }

    @Override
    public byte[] failed(Wire.Request request, byte[] answer, int code) {
        AbstractResponse response =
            AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header(request));
        setErrors(response.data(), (short) code);
        return written(request, response);
    }

    /** Set every error code in a message and in all that it holds. */
    private static void setErrors(Object part, short code) {
        if (part instanceof Iterable<?> parts) {
            parts.forEach(each -> setErrors(each, code));
            return;
        }
        if (!(part instanceof Message)) return;
        for (Method each : part.getClass().getMethods()) {
            try {
                if (each.getName().equals("setErrorCode") && each.getParameterCount() == 1) {
                    each.invoke(part, code);
                } else if (each.getParameterCount() == 0 && isPart(each)) {
                    setErrors(each.invoke(part), code);
                }
            } catch (IllegalAccessException | InvocationTargetException error) {
                throw new IllegalArgumentException(error);
            }
        }
    }

    /** Whether a method returns what the message holds; `duplicate` returns a copy of it. */
    private static boolean isPart(Method method) {
        Class<?> type = method.getReturnType();
        return !method.getName().equals("duplicate")
            && (Iterable.class.isAssignableFrom(type) || Message.class.isAssignableFrom(type));
    }
}
