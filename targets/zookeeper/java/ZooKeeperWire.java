import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Set;

/**
 * ZooKeeper's client protocol: a connection begins with a request for a session, which has no
 * header; every other one has an xid and a type, its answer the xid, a zxid and an error code. A
 * session's requests are answered in their order.
 *
 * What is answered out of that order passes and is met by no rule: events of watches (xid -1), and
 * answers to auth and sasl. Pings (xid -2) are requests as others. A connection that begins with a
 * four-letter word has no messages.
 */
public final class ZooKeeperWire implements Wire {
    private static final int CREATE_SESSION = -10;
    /** The id of a request for a session: no xid is so small. */
    private static final long SESSION = Long.MIN_VALUE;
    private static final int EVENT = -1;
    private static final Set<Integer> UNORDERED = Set.of(100, 102); // auth, sasl
    private static final int CODE_AT = 12;
    private static final int ANSWER_BYTES = 16;

    @Override
    public boolean plain(byte[] first) {
        if (first.length < 4) return false;
        for (byte each : first) {
            if (each < 'a' || each > 'z') return false;
        }
        return true;
    }

    @Override
    public Request request(byte[] frame, long nth) {
        if (nth == 0) return new Request(CREATE_SESSION, 0, SESSION, "");
        if (frame.length < 8) return null;
        ByteBuffer header = ByteBuffer.wrap(frame);
        int xid = header.getInt();
        int type = header.getInt();
        return UNORDERED.contains(type) ? null : new Request(type, 0, xid, "");
    }

    @Override
    public Long answered(byte[] first, long nth) {
        if (nth == 0) return SESSION;
        if (first.length < ANSWER_BYTES) return null;
        int xid = ByteBuffer.wrap(first).getInt();
        return xid == EVENT ? null : (long) xid;
    }

    /** A znode, and all below it. */
    @Override
    public boolean concerns(Request request, byte[] frame, String subject) {
        if (request.id() == SESSION) return false;
        String below = subject.equals("/") ? subject : subject + "/";
        return ZooKeeperPaths.of(request.api(), frame).stream()
            .anyMatch(path -> path.equals(subject) || path.startsWith(below));
    }

    @Override
    public byte[] refusal(Request request, byte[] frame, int code) {
        if (request.id() == SESSION) return null;
        return ByteBuffer.allocate(ANSWER_BYTES)
            .putInt((int) request.id()).putLong(0).putInt(code).array();
    }

    /** Without what was answered: an error has no body. */
    @Override
    public byte[] failed(Request request, byte[] answer, int code) {
        if (request.id() == SESSION) return answer;
        byte[] head = Arrays.copyOf(answer, ANSWER_BYTES);
        ByteBuffer.wrap(head).putInt(CODE_AT, code);
        return head;
    }
}
