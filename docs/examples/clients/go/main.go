// A Kafka producer for `ackloss run --client`, with franz-go (docs/how-to/any-client.md).
//
//	go build -o client .
//	ackloss run clients/lose --client ./client
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type setup struct {
	Client, Start int
	Connection    struct {
		BootstrapServers []string `json:"bootstrap_servers"`
		Topic            string
		Producer         map[string]string
		Properties       map[string]string
	}
}

type operation struct {
	Type      string
	ID        int64
	Value     int64
	Partition int32
	Key       *string
}

var writing sync.Mutex

// say writes one line, whole: promises are called from goroutines of the client.
func say(line map[string]any) {
	writing.Lock()
	defer writing.Unlock()
	json.NewEncoder(os.Stdout).Encode(line)
}

// options are the plan's settings as franz-go has them.
func options(s setup) ([]kgo.Opt, error) {
	if protocol := s.Connection.Properties["security.protocol"]; protocol != "" && protocol != "PLAINTEXT" {
		return nil, fmt.Errorf("this example speaks plain text, not %s", protocol)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.Connection.BootstrapServers...),
		kgo.ClientID(fmt.Sprintf("ackloss-%d.%d", s.Client, s.Start)),
		kgo.DefaultProduceTopic(s.Connection.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // its default is snappy
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
	}
	for key, text := range s.Connection.Producer {
		number, _ := strconv.Atoi(text)
		limit := time.Duration(number) * time.Millisecond
		switch key {
		case "acks":
			acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
			opts = append(opts, kgo.RequiredAcks(acks[text]))
		case "enable.idempotence":
			if text != "true" {
				opts = append(opts, kgo.DisableIdempotentWrite())
			}
		case "delivery.timeout.ms":
			opts = append(opts, kgo.RecordDeliveryTimeout(limit))
		case "request.timeout.ms":
			opts = append(opts, kgo.ProduceRequestTimeout(limit), kgo.RequestTimeoutOverhead(limit))
		case "retries":
			opts = append(opts, kgo.RecordRetries(number))
		case "linger.ms":
			opts = append(opts, kgo.ProducerLinger(limit))
		case "max.block.ms": // it never blocks: what it cannot send waits for its delivery timeout
		default:
			return nil, fmt.Errorf("franz-go has no setting %s", key)
		}
	}
	return opts, nil
}

func connect(s setup) (*kgo.Client, error) {
	opts, err := options(s)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return client, client.Ping(within)
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version
		}
	}
	return "unknown"
}

func name(err error) string {
	if known, ok := err.(*kerr.Error); ok {
		return known.Message
	}
	return fmt.Sprintf("%.200s", fmt.Sprintf("%v: %v", reflect.TypeOf(err), err))
}

func send(client *kgo.Client, op operation) {
	record := &kgo.Record{Partition: op.Partition, Value: []byte(fmt.Sprintf("%010d", op.Value))}
	if op.Key != nil {
		record.Key = []byte(*op.Key)
	}
	client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
		line := map[string]any{"type": "ok", "id": op.ID}
		if err != nil { // of the last attempt: it proves nothing about the attempts before it
			line = map[string]any{"type": "info", "id": op.ID, "error": name(err)}
		} else if record.Offset >= 0 {
			line["position"] = record.Offset
		}
		say(line)
	})
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	var s setup
	lines.Scan()
	err := json.Unmarshal(lines.Bytes(), &s)
	var client *kgo.Client
	if err == nil {
		client, err = connect(s)
	}
	if err != nil {
		say(map[string]any{"type": "failed", "error": name(err)})
		return
	}
	say(map[string]any{"type": "ready", "name": "franz-go", "version": version()})
	for lines.Scan() {
		var op operation
		if json.Unmarshal(lines.Bytes(), &op) != nil || op.Type != "invoke" {
			break
		}
		send(client, op)
	}
	within, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	client.Flush(within)
}
