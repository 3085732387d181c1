import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * One rule: which requests it meets, and what is done to them or to their answers. Read from a file
 * of properties: act, side, apis, client, subjects, peers, others, share, first, ms, code, seed.
 */
final class Rule {
    final String name;
    final String act;
    final boolean onAnswer;
    final int code;
    private final Set<String> apis;
    private final String client;
    private final Set<String> subjects;
    private final Set<String> peers;
    private final Set<String> others;
    private final double share;
    private final long first;
    private final long ms;
    private final Random random;
    private final Map<Integer, Long> hits = new TreeMap<>();
    private final List<Connection> stalled = new ArrayList<>();
    private long met;
    private boolean ended;

    Rule(String name, Properties given) {
        this.name = name;
        act = given.getProperty("act");
        onAnswer = given.getProperty("side").equals("answer");
        apis = words(given, "apis");
        client = given.getProperty("client", "");
        subjects = words(given, "subjects");
        peers = words(given, "peers");
        others = words(given, "others");
        share = Double.parseDouble(given.getProperty("share", "1"));
        first = Long.parseLong(given.getProperty("first", "0"));
        ms = Long.parseLong(given.getProperty("ms", "0"));
        code = Integer.parseInt(given.getProperty("code", "0"));
        random = new Random(Long.parseLong(given.getProperty("seed", "0")));
    }

    private static Set<String> words(Properties given, String key) {
        return Set.of(given.getProperty(key, "").split(",")).stream()
            .filter(word -> !word.isEmpty())
            .collect(Collectors.toSet());
    }

    /** Whether it meets a request; decided once for each, and not yet counted as a hit. */
    synchronized boolean meets(Wire wire, Wire.Request request, byte[] frame, InetAddress from) {
        String address = from.getHostAddress();
        if (ended
            || (!apis.isEmpty() && !apis.contains(Integer.toString(request.api())))
            || !request.client().startsWith(client)
            || (!peers.isEmpty() && !peers.contains(address))
            || others.contains(address)
            || (!subjects.isEmpty()
                && subjects.stream().noneMatch(each -> wire.concerns(request, frame, each)))
            || (first > 0 && met >= first)
            || (share < 1 && random.nextDouble() >= share)) return false;
        met++;
        return true;
    }

    /** Its act has been done to a request of this API. False: the rule has ended, do not do it. */
    synchronized boolean hit(int api) {
        if (!ended) hits.merge(api, 1L, Long::sum);
        return !ended;
    }

    /** Whether it has not ended. */
    synchronized boolean inForce() {
        return !ended;
    }

    /** Its act was done to a request of this API, which it met while it had not ended. */
    synchronized void done(int api) {
        hits.merge(api, 1L, Long::sum);
    }

    /** Its act could not be done: another request may be the one of `first`. */
    synchronized void missed() {
        met--;
    }

    /** Wait until so long after this time, or, with a negative `ms`, until the rule ends. */
    synchronized void delay(long sinceNs) throws InterruptedException {
        while (!ended) {
            long leftMs = ms < 0 ? 1000 : ms - (System.nanoTime() - sinceNs) / 1_000_000;
            if (leftMs <= 0) return;
            wait(leftMs);
        }
    }

    /** Have a connection on which nothing passes any more reset when the rule ends. False: it has. */
    synchronized boolean stall(Connection connection) {
        if (!ended) stalled.add(connection);
        return !ended;
    }

    synchronized void end() {
        ended = true;
        notifyAll();
        stalled.forEach(Connection::reset);
    }

    /** What the state file says of it: one word each for the APIs that it has met. */
    synchronized String hits() {
        return hits.entrySet().stream()
            .map(each -> " " + each.getKey() + ":" + each.getValue())
            .collect(Collectors.joining());
    }
}
