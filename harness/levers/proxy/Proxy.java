import java.io.IOException;
import java.io.Reader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A proxy before a server of this node, to which connections are redirected (harness/levers). It
 * passes everything on unless a rule says otherwise.
 *
 * Usage: java Proxy FOLDER WIRE PORT:HOST:TARGET..., WIRE the class that knows the protocol. FOLDER/rules
 * holds a file for each rule, which counts once it has the line `whole=yes`; a rule ends when its
 * file is gone. FOLDER/state says what is so, a line each:
 *
 *     rule NAME API:HITS...
 *     port TARGET API:REQUESTS...
 */
public final class Proxy {
    private static final long LOOK_MS = 50;
    private static final int BACKLOG = 512;

    private final Path folder;
    private final Wire wire;
    private final Map<String, Rule> rules = new ConcurrentSkipListMap<>();
    private final Map<Integer, Map<Integer, AtomicLong>> requests = new ConcurrentSkipListMap<>();
    private String written = "";

    private Proxy(Path folder, Wire wire) {
        this.folder = folder;
        this.wire = wire;
    }

    public static void main(String[] words) throws Exception {
        Wire wire = (Wire) Class.forName(words[1]).getDeclaredConstructor().newInstance();
        Proxy proxy = new Proxy(Path.of(words[0]), wire);
        Files.createDirectories(proxy.folder.resolve("rules"));
        for (String pair : List.of(words).subList(2, words.length)) {
            String[] parts = pair.split(":");
            int target = Integer.parseInt(parts[2]);
            proxy.listen(Integer.parseInt(parts[0]), new InetSocketAddress(parts[1], target));
        }
        for (; ; Thread.sleep(LOOK_MS)) proxy.look();
    }

    static void daemon(String name, Runnable what) {
        Thread thread = new Thread(what, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void listen(int port, InetSocketAddress target) throws IOException {
        ServerSocket listener = new ServerSocket(port, BACKLOG);
        Map<Integer, AtomicLong> counts = new ConcurrentSkipListMap<>();
        requests.put(target.getPort(), counts);
        daemon("port " + port, () -> {
            for (; ; ) {
                try {
                    Socket client = listener.accept();
                    Connection made = new Connection(this, wire, counts, client, target);
                    daemon("requests", made::run);
                } catch (IOException error) {
                    System.err.println(error);
                }
            }
        });
    }

    /** The first rule by name that meets a request; null: none does. */
    Rule met(Wire wire, Wire.Request request, byte[] frame, InetAddress from) {
        for (Rule rule : rules.values()) {
            if (rule.meets(wire, request, frame, from)) return rule;
        }
        return null;
    }

    /** Take rules whose files are new, end those whose files are gone, write what is so. */
    private void look() throws IOException {
        List<Path> files;
        try (Stream<Path> listed = Files.list(folder.resolve("rules"))) {
            files = listed.toList();
        }
        for (Path file : files) {
            String name = file.getFileName().toString();
            if (!rules.containsKey(name)) take(name, file);
        }
        for (String name : List.copyOf(rules.keySet())) {
            if (!Files.exists(folder.resolve("rules").resolve(name))) rules.remove(name).end();
        }
        write();
    }

    private void take(String name, Path file) {
        Properties given = new Properties();
        try (Reader text = Files.newBufferedReader(file)) {
            given.load(text);
            if (given.containsKey("whole")) rules.put(name, new Rule(name, given));
        } catch (IOException | RuntimeException error) {
            System.err.println(name + ": " + error);
        }
    }

    private void write() throws IOException {
        StringBuilder text = new StringBuilder();
        rules.forEach((name, rule) -> text.append("rule " + name + rule.hits() + "\n"));
        requests.forEach((port, counts) -> text.append("port " + port + counts.entrySet().stream()
            .map(each -> " " + each.getKey() + ":" + each.getValue())
            .collect(Collectors.joining()) + "\n"));
        if (text.toString().equals(written)) return;
        Path half = folder.resolve("state.new");
        Files.writeString(half, text);
        Files.move(half, folder.resolve("state"), StandardCopyOption.ATOMIC_MOVE);
        written = text.toString();
    }
}
