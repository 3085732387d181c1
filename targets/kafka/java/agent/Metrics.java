import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import javax.management.Attribute;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Appends the numbers that operators of Kafka alert on to a file, twice a second, from within the
 * broker's own JVM: no port and no packet, so that no fault of a network meets it. The name of the
 * file is its argument.
 *
 * <p>A line is TIME, {@code !} or nothing, and the NAME=NUMBER of what has changed, each after a tab,
 * and ends with a tab and a full stop; a line that does not was cut off. TIME is the host's monotonic
 * clock, in nanoseconds. After {@code !} everything is named that there is: a JVM that has just
 * begun, and a file that was emptied. An empty NUMBER: there is none any more. Names are those that
 * Prometheus' exporter gives MBeans by the usual rules.
 */
public final class Metrics {
    private static final long PERIOD_MS = 500;
    private static final int SEARCHES_EVERY = 4;
    private static final int PARTITIONS_AT_MOST = 64;
    private static final String[] BEANS = {
        "kafka.server:type=ReplicaManager,*",
        "kafka.server:type=ReplicaFetcherManager,*",
        "kafka.server:type=KafkaServer,name=BrokerState",
        "kafka.server:type=BrokerTopicMetrics,name=*",
        "kafka.server:type=raft-metrics",
        "kafka.controller:type=KafkaController,*",
        "kafka.controller:type=ControllerStats,*",
        "kafka.log:type=LogManager,*",
    };
    private static final String[] OF_PARTITIONS = {
        "kafka.cluster:type=Partition,*",
        "kafka.log:type=Log,name=LogStartOffset,*",
        "kafka.log:type=Log,name=LogEndOffset,*",
    };
    private static final List<String> ATTRIBUTES =
            Arrays.asList("Value", "Count", "current-leader", "current-epoch");
    /** What changes all the time and no rule is about: ages, positions and events of a controller. */
    private static final String RESTLESS =
            "LastApplied.*|LastCommitted.*|TimeSince.*|EventQueue.*|MinFetchRate";

    private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();
    private final Map<ObjectName, Map<String, String>> beans = new LinkedHashMap<>();
    private final Map<String, String> written = new HashMap<>();

    private Metrics() {}

    public static void premain(String file) {
        Thread thread = new Thread(() -> new Metrics().run(new File(file)), "ackloss-metrics");
        thread.setDaemon(true);
        thread.start();
    }

    private void run(File file) {
        try (OutputStream out = new FileOutputStream(file, true)) {
            out.write('\n');
            long length = Long.MAX_VALUE;
            for (long turn = 0; ; turn++) {
                if (turn % SEARCHES_EVERY == 0) {
                    search();
                }
                long now = System.nanoTime();
                Map<String, String> values = read();
                boolean all = file.length() < length;
                byte[] line = line(now, values, all).getBytes(StandardCharsets.UTF_8);
                out.write(line);
                length = all ? line.length : length + line.length;
                Thread.sleep(PERIOD_MS);
            }
        } catch (Exception error) {
            System.err.println("ackloss: metrics are no longer written: " + error);
        }
    }

    private void search() throws Exception {
        for (String pattern : BEANS) {
            for (ObjectName bean : server.queryNames(new ObjectName(pattern), null)) {
                keep(bean);
            }
        }
        for (String pattern : OF_PARTITIONS) {
            List<ObjectName> found = new ArrayList<>();
            for (ObjectName bean : server.queryNames(new ObjectName(pattern), null)) {
                if (!String.valueOf(bean.getKeyProperty("topic")).startsWith("__")) {
                    found.add(bean);
                }
            }
            if (found.size() <= PARTITIONS_AT_MOST) {
                for (ObjectName bean : found) {
                    keep(bean);
                }
            }
        }
    }

    private void keep(ObjectName bean) throws Exception {
        String given = bean.getKeyProperty("name");
        if (beans.containsKey(bean) || given != null && given.matches(RESTLESS)) {
            return;
        }
        Map<String, String> names = new TreeMap<>();
        try {
            for (MBeanAttributeInfo each : server.getMBeanInfo(bean).getAttributes()) {
                if (ATTRIBUTES.contains(each.getName())) {
                    names.put(each.getName(), name(bean, each.getName()));
                }
            }
        } catch (InstanceNotFoundException gone) {
            return;
        }
        beans.put(bean, names);
    }

    private static String name(ObjectName bean, String attribute) {
        String given = bean.getKeyProperty("name");
        String last =
                given == null
                        ? attribute
                        : attribute.equals("Count") ? given.replaceFirst("PerSec$", "_total") : given;
        String plain =
                String.join("_", bean.getDomain(), bean.getKeyProperty("type"), last)
                        .replace('.', '_')
                        .replace('-', '_')
                        .toLowerCase(Locale.ROOT);
        Map<String, String> labels = new TreeMap<>(bean.getKeyPropertyList());
        labels.remove("type");
        labels.remove("name");
        if (labels.isEmpty()) {
            return plain;
        }
        List<String> written = new ArrayList<>();
        labels.forEach((key, value) -> written.add(key + "=\"" + value.replace("\"", "") + "\""));
        return plain + "{" + String.join(",", written) + "}";
    }

    private Map<String, String> read() throws Exception {
        Map<String, String> values = new LinkedHashMap<>();
        for (Map.Entry<ObjectName, Map<String, String>> each : new ArrayList<>(beans.entrySet())) {
            try {
                String[] attributes = each.getValue().keySet().toArray(new String[0]);
                for (Attribute found : server.getAttributes(each.getKey(), attributes).asList()) {
                    if (found.getValue() instanceof Number) {
                        values.put(each.getValue().get(found.getName()), found.getValue().toString());
                    }
                }
            } catch (InstanceNotFoundException gone) {
                beans.remove(each.getKey());
            }
        }
        return values;
    }

    private String line(long now, Map<String, String> values, boolean all) {
        StringBuilder line = new StringBuilder().append(now).append(all ? "\t!" : "\t");
        if (all) {
            written.clear();
        }
        values.forEach((name, value) -> {
            if (!value.equals(written.put(name, value))) {
                line.append('\t').append(name).append('=').append(value);
            }
        });
        written.keySet().removeIf(name -> {
            boolean gone = !values.containsKey(name);
            if (gone) {
                line.append('\t').append(name).append('=');
            }
            return gone;
        });
        return line.append("\t.\n").toString();
    }
}
