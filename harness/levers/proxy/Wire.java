/**
 * What a proxy must know of a protocol whose messages begin with their length (4 bytes, not counted
 * in it). An implementation has a public constructor without parameters; its methods are called
 * from many threads. A frame is a message without its length.
 */
public interface Wire {
    /** A request by its header. `api` is what it asks for, `id` what its answer will repeat. */
    record Request(int api, int version, long id, String client) {}

    /** Whether a connection that begins with these 4 bytes has no messages, and passes as it is. */
    default boolean plain(byte[] first) {
        return false;
    }

    /** The header of the nth request of a connection, counted from 0; null: it is none. */
    Request request(byte[] frame, long nth);

    /** Which request the nth answer of a connection answers, by the first bytes of it; null: none. */
    Long answered(byte[] first, long nth);

    /** Whether a request concerns this subject: a topic, a path. */
    boolean concerns(Request request, byte[] frame, String subject);

    /** The answer that refuses a request with an error code; null: it has no answer. */
    byte[] refusal(Request request, byte[] frame, int code);

    /** An answer with an error code instead of success. */
    byte[] failed(Request request, byte[] answer, int code);
}
