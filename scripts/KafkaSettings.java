import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/** Prints the definitions of Kafka's settings, a line each: level, name, type, default, words, help. */
public class KafkaSettings {
    private static final Map<String, String[]> WHERE = new TreeMap<>(Map.of(
        "broker", new String[] {
            "org.apache.kafka.server.config.AbstractKafkaConfig", "kafka.server.KafkaConfig$"},
        "topic", new String[] {
            "org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig$"},
        "producer", new String[] {"org.apache.kafka.clients.producer.ProducerConfig"},
        "consumer", new String[] {"org.apache.kafka.clients.consumer.ConsumerConfig"}));

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        for (Map.Entry<String, String[]> each : WHERE.entrySet()) {
            ConfigDef found = null;
            for (String name : each.getValue())
                if (found == null)
                    found = definition(name, each.getKey().equals("topic") ? "segment.bytes" : "");
            if (found == null) throw new IllegalStateException("no definitions: " + each.getKey());
            for (Object key : new TreeMap<>(keys(found)).values())
                System.out.println(String.join("\t", each.getKey(), of(key, "name"),
                    of(key, "type"), of(key, "defaultValue").replaceFirst("^(java.lang.)?Object@.*", ""),
                    of(key, "validator"), of(key, "documentation")));
        }
        synonyms();
    }

    /** The names that brokers have for topics' settings: `synonym`, name, topic's name, factor. */
    @SuppressWarnings("unchecked")
    private static void synonyms() throws Exception {
        Map<String, ?> all;
        try {
            Class<?> type = Class.forName("org.apache.kafka.server.config.ServerTopicConfigSynonyms");
            all = (Map<String, ?>) type.getField("ALL_TOPIC_CONFIG_SYNONYMS").get(null);
        } catch (ClassNotFoundException absent) {
            return;
        }
        for (Map.Entry<String, ?> each : new TreeMap<>(all).entrySet())
            for (Object synonym : (Iterable<?>) each.getValue()) {
                Method name = synonym.getClass().getMethod("name");
                Method converter = synonym.getClass().getMethod("converter");
                Object one = ((java.util.function.Function<String, String>) converter.invoke(synonym)).apply("1");
                System.out.println(String.join("\t", "synonym", (String) name.invoke(synonym),
                    each.getKey(), one.equals("1") ? "" : (String) one, "", ""));
            }
    }

    /** A field of a `ConfigKey`, which is private in 0.9. A default that is missing is an Object. */
    private static String of(Object key, String name) throws Exception {
        Field field = key.getClass().getDeclaredField(name);
        field.setAccessible(true);
        Object value = field.get(key);
        return value == null ? "" : value.toString().replaceAll("\\s+", " ").trim();
    }

    /** The largest ConfigDef that a class holds, in a field or behind a method without arguments,
      * and that has a certain key: a topic's class may hold the brokers', too. */
    private static ConfigDef definition(String name, String key) throws Exception {
        Class<?> type;
        try {
            type = Class.forName(name);
        } catch (ClassNotFoundException absent) {
            return null;
        }
        Object module = null;
        for (Field field : type.getDeclaredFields())
            if (field.getName().equals("MODULE$")) module = field.get(null);
        ConfigDef best = null;
        for (Field field : type.getDeclaredFields()) {
            boolean isStatic = java.lang.reflect.Modifier.isStatic(field.getModifiers());
            if (ConfigDef.class.isAssignableFrom(field.getType()) && (isStatic || module != null)) {
                field.setAccessible(true);
                best = larger(key, best, (ConfigDef) field.get(isStatic ? null : module));
            }
        }
        for (Method method : type.getDeclaredMethods()) {
            boolean isStatic = java.lang.reflect.Modifier.isStatic(method.getModifiers());
            if (ConfigDef.class.isAssignableFrom(method.getReturnType())
                && method.getParameterCount() == 0 && (isStatic || module != null)) {
                method.setAccessible(true);
                best = larger(key, best, (ConfigDef) method.invoke(isStatic ? null : module));
            }
        }
        return best;
    }

    private static ConfigDef larger(String key, ConfigDef one, ConfigDef other) throws Exception {
        if (other != null && !key.isEmpty() && !keys(other).containsKey(key)) return one;
        if (one == null || other == null) return one == null ? other : one;
        return keys(other).size() > keys(one).size() ? other : one;
    }

    /** `configKeys()`; in versions before it, a private field. */
    @SuppressWarnings("unchecked")
    private static Map<String, Object> keys(ConfigDef definition) throws Exception {
        Field field = ConfigDef.class.getDeclaredField("configKeys");
        field.setAccessible(true);
        return (Map<String, Object>) field.get(definition);
    }
}
