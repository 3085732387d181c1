import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

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
