import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
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

/** The paths in requests of ZooKeeper, as zookeeper.jute has their records. */
final class ZooKeeperPaths {
    private static final int HEADER_BYTES = 8;
    private static final int CREATE = 1, DELETE = 2, GET_DATA = 4, SET_DATA = 5, GET_CHILDREN = 8;
    private static final int CHECK = 13, CREATE2 = 15, CREATE_CONTAINER = 19, CREATE_TTL = 21;
    private static final Set<Integer> MULTI = Set.of(14, 22);
    /** Those that begin with a path, and have no other. */
    private static final Set<Integer> ONE =
        Set.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 17, 18, 19, 20, 21, 103, 104, 106);

    private ZooKeeperPaths() {}

    static List<String> of(int type, byte[] frame) {
        List<String> found = new ArrayList<>();
        ByteBuffer body = ByteBuffer.wrap(frame, HEADER_BYTES, frame.length - HEADER_BYTES);
        try {
            if (ONE.contains(type)) found.add(text(body));
            if (MULTI.contains(type)) addOperations(body, found);
        } catch (BufferUnderflowException | IllegalArgumentException unreadable) {
            // the server says what it thinks of it
        }
        return found;
    }

    /** Each operation of a multi has a header of its own: type, whether it was the last, an error. */
    private static void addOperations(ByteBuffer body, List<String> found) {
        while (true) {
            int type = body.getInt();
            boolean done = body.get() != 0;
            body.getInt();
            if (done) return;
            found.add(text(body));
            switch (type) {
                case CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL -> {
                    skip(body, body.getInt());
                    for (int left = body.getInt(); left > 0; left--) {
                        body.getInt();
                        text(body);
                        text(body);
                    }
                    skip(body, type == CREATE_TTL ? 12 : 4);
                }
                case SET_DATA -> {
                    skip(body, body.getInt());
                    skip(body, 4);
                }
                case DELETE, CHECK -> skip(body, 4);
                case GET_DATA, GET_CHILDREN -> skip(body, 1);
                default -> throw new IllegalArgumentException("an operation of type " + type);
            }
        }
    }

    private static String text(ByteBuffer body) {
        int length = Math.max(body.getInt(), 0);
        if (length > body.remaining()) throw new BufferUnderflowException();
        byte[] bytes = new byte[length];
        body.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** A length of -1 is that of nothing. */
    private static void skip(ByteBuffer body, int bytes) {
        body.position(body.position() + Math.max(bytes, 0));
    }
}
