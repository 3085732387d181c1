import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One client's connection and the one to the server that belongs to it; a thread for each
 * direction. Order is kept: what follows a delayed message waits behind it. A request goes on to
 * the server even if its client has gone meanwhile, as packets under way do.
 */
final class Connection {
    private static final int MOST_BYTES = 1 << 29;
    private static final int PIECE_BYTES = 1 << 16;
    private static final int HEAD_BYTES = 16;
    private static final int LENGTH_BYTES = 4;
    private static final int CONNECT_MS = 5000;

    /** A request that was forwarded, or that the proxy answers itself (`answer`). */
    private record Pending(Wire.Request request, Rule rule, long sinceNs, byte[] answer) {}

    private final Proxy proxy;
    private final Wire wire;
    private final Map<Integer, AtomicLong> counts;
    private final Socket client;
    private final InetAddress from;
    private final InetSocketAddress target;
    private final Socket server = new Socket();
    private final Deque<Pending> pending = new ArrayDeque<>();
    private final DataOutputStream toClient;
    private volatile boolean stalled;
    private volatile boolean clientGone;
    private volatile boolean plain;

    /** `counts`: of the requests that come through this port, by API. */
    Connection(
        Proxy proxy, Wire wire, Map<Integer, AtomicLong> counts, Socket client,
        InetSocketAddress target) throws IOException {
        this.proxy = proxy;
        this.wire = wire;
        this.counts = counts;
        this.client = client;
        this.target = target;
        from = client.getInetAddress();
        toClient = out(client);
    }

    private static DataOutputStream out(Socket socket) throws IOException {
        return new DataOutputStream(new BufferedOutputStream(socket.getOutputStream(), PIECE_BYTES));
    }

    private static DataInputStream in(Socket socket) throws IOException {
        return new DataInputStream(new BufferedInputStream(socket.getInputStream(), PIECE_BYTES));
    }

    /** Pass requests on until the client ends; answers in a thread of their own. */
    void run() {
        try {
            client.setTcpNoDelay(true);
            server.setTcpNoDelay(true);
            server.connect(target, CONNECT_MS);
        } catch (IOException error) { // a server that is not there refuses
            reset();
            return;
        }
        Proxy.daemon("answers", this::answers);
        try {
            requests();
            server.shutdownOutput(); // it ends the connection once it has answered
        } catch (IOException error) {
            reset();
        } catch (InterruptedException | RuntimeException error) {
            fail(error);
        }
    }

    private void requests() throws IOException, InterruptedException {
        DataInputStream source = in(client);
        DataOutputStream sink = out(server);
        plain = wire.plain(peek(source, LENGTH_BYTES));
        if (plain) source.transferTo(server.getOutputStream());
        for (long nth = 0; !plain; nth++) {
            byte[] frame = next(source);
            if (frame == null) return;
            if (stalled) continue;
            Wire.Request request = wire.request(frame, nth);
            if (request != null) {
                counts.computeIfAbsent(request.api(), api -> new AtomicLong()).incrementAndGet();
            }
            Rule rule = request == null ? null : proxy.met(wire, request, frame, from);
            if (rule == null || rule.onAnswer) {
                if (request != null) expect(new Pending(request, rule, System.nanoTime(), null));
            } else if (!goesOn(rule, request, frame)) {
                continue;
            }
            send(sink, frame, source.available() == 0);
        }
    }

    /** What comes next, which stays to be read; fewer bytes if that is the end. */
    private static byte[] peek(DataInputStream source, int bytes) throws IOException {
        source.mark(bytes);
        byte[] found = source.readNBytes(bytes);
        source.reset();
        return found;
    }

    /** The next request; null: the client has ended, or is gone. */
    private byte[] next(DataInputStream source) throws IOException {
        try {
            byte[] frame = new byte[size(source)];
            source.readFully(frame);
            return frame;
        } catch (EOFException | java.net.SocketException gone) {
            clientGone = true;
            return null;
        }
    }

    /** Do to a request what a rule says; whether it then goes on to the server. */
    private boolean goesOn(Rule rule, Wire.Request request, byte[] frame)
        throws IOException, InterruptedException {
        long nowNs = System.nanoTime();
        if (rule.act.equals("duplicate")) {
            if (rule.inForce()) Proxy.daemon("again", () -> sendAgain(frame, rule, request.api()));
        } else if (rule.hit(request.api())) {
            switch (rule.act) {
                case "drop" -> { stall(rule); return false; }
                case "reset" -> { reset(); return false; }
                case "error" -> {
                    byte[] answer = wire.refusal(request, frame, rule.code);
                    if (answer != null) answerAfterOthers(request, answer);
                    return false;
                }
                case "delay" -> rule.delay(nowNs);
                default -> { }
            }
        }
        expect(new Pending(request, null, nowNs, null));
        return true;
    }

    private void expect(Pending one) {
        synchronized (pending) {
            pending.add(one);
        }
    }

    private void answerAfterOthers(Wire.Request request, byte[] answer) throws IOException {
        synchronized (pending) {
            pending.add(new Pending(request, null, 0, answer));
            answerOwn();
        }
    }

    /** Give the answers of the proxy's own that come next. */
    private void answerOwn() throws IOException {
        synchronized (pending) {
            while (!pending.isEmpty() && pending.peek().answer() != null) {
                toClient(pending.poll().answer());
            }
        }
    }

    private void answers() {
        try {
            DataInputStream source = in(server);
            peek(source, 1); // the client has spoken before the server does
            if (plain) source.transferTo(client.getOutputStream());
            for (long nth = 0; ; nth++) {
                int bytes = size(source);
                byte[] head = source.readNBytes(Math.min(bytes, HEAD_BYTES));
                Pending one = answered(head, nth);
                Rule rule = one == null ? null : one.rule();
                if (rule != null && !rule.hit(one.request().api())) rule = null;
                if (rule != null && rule.act.equals("drop")) stall(rule);
                if (rule != null && rule.act.equals("reset")) {
                    reset();
                    return;
                }
                if (rule != null && rule.act.equals("delay")) rule.delay(one.sinceNs());
                if (rule != null && rule.act.equals("error")) {
                    byte[] whole = whole(head, source, bytes);
                    toClient(wire.failed(one.request(), whole, rule.code));
                } else {
                    pass(head, source, bytes);
                }
                passed(one);
            }
        } catch (EOFException ended) {
            close();
        } catch (IOException error) {
            reset();
        } catch (InterruptedException | RuntimeException error) {
            fail(error);
        }
    }

    /** What the wire cannot read ends the connection, and is said where the node's output is. */
    private void fail(Exception error) {
        error.printStackTrace();
        reset();
    }

    /**
     * The request that is answered, which is expected until its answer has passed: what comes after
     * it waits. Those before it that the server has not answered have no answer.
     */
    private Pending answered(byte[] head, long nth) throws IOException {
        Long id = wire.answered(head, nth);
        if (id == null) return null;
        synchronized (pending) {
            if (pending.stream().noneMatch(each -> each.request().id() == id)) return null;
            while (pending.peek().request().id() != id) {
                Pending before = pending.poll();
                if (before.answer() != null) toClient(before.answer());
            }
            return pending.peek();
        }
    }

    private void passed(Pending one) throws IOException {
        synchronized (pending) {
            pending.remove(one);
            answerOwn();
        }
    }

    private static int size(DataInputStream source) throws IOException {
        int bytes = source.readInt();
        if (bytes < 0 || bytes > MOST_BYTES) throw new IOException("no frame of this protocol");
        return bytes;
    }

    private static byte[] whole(byte[] head, DataInputStream source, int bytes) throws IOException {
        byte[] all = new byte[bytes];
        System.arraycopy(head, 0, all, 0, head.length);
        source.readFully(all, head.length, bytes - head.length);
        return all;
    }

    private static void send(DataOutputStream sink, byte[] frame, boolean flush) throws IOException {
        sink.writeInt(frame.length);
        sink.write(frame);
        if (flush) sink.flush();
    }

    private void toClient(byte[] frame) throws IOException {
        if (stalled || clientGone) return;
        synchronized (toClient) {
            send(toClient, frame, true);
        }
    }

    /** Pass an answer on in pieces, however large; a client that has gone does not matter. */
    private void pass(byte[] head, DataInputStream source, int bytes) throws IOException {
        byte[] piece = new byte[Math.min(PIECE_BYTES, bytes - head.length)];
        synchronized (toClient) {
            boolean passes = !stalled && !clientGone;
            if (passes) {
                toClient.writeInt(bytes);
                toClient.write(head);
            }
            for (int left = bytes - head.length; left > 0; ) {
                int got = source.read(piece, 0, Math.min(left, piece.length));
                if (got < 0) throw new EOFException();
                if (passes) toClient.write(piece, 0, got);
                left -= got;
            }
            if (passes) toClient.flush();
        }
    }

    /**
     * Send a request once more on a connection of its own, and read the answer for nobody. A hit of
     * the rule once it is sent.
     */
    private void sendAgain(byte[] frame, Rule rule, int api) {
        boolean sent = false;
        try (Socket once = new Socket()) {
            once.connect(target, CONNECT_MS);
            send(out(once), frame, true);
            sent = true;
            rule.done(api);
            once.setSoTimeout(CONNECT_MS);
            DataInputStream source = in(once);
            source.skipNBytes(size(source));
        } catch (IOException unanswered) { // whether it took effect, the log of the server says
            if (!sent) rule.missed();
        }
    }

    /** Nothing passes any more, in neither direction, until the rule ends. */
    private void stall(Rule rule) {
        stalled = rule.stall(this);
    }

    /** End both connections by a reset, so that no end of them waits for what is lost. */
    void reset() {
        for (Socket each : new Socket[] {client, server}) {
            try {
                each.setSoLinger(true, 0);
            } catch (IOException gone) {
                // closed already
            }
        }
        close();
    }

    private void close() {
        for (Socket each : new Socket[] {client, server}) {
            try {
                each.close();
            } catch (IOException gone) {
                // closed already
            }
        }
    }
}
