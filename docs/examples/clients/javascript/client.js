// A Kafka producer for `ackloss run --client`, with KafkaJS (docs/how-to/any-client.md).
//
//   npm install
//   ackloss run clients/lose --client "node client.js"

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { Kafka, logLevel } from 'kafkajs'

const require = createRequire(import.meta.url)
const { version } = JSON.parse(readFileSync(require.resolve('kafkajs/package.json')))

const say = line => process.stdout.write(JSON.stringify(line) + '\n')

// Kafka's names of settings, and what KafkaJS makes of them. It has no limit for a whole delivery: a
// write ends when its retries do, so their number follows from the time that there is.
const KNOWN = ['acks', 'enable.idempotence', 'delivery.timeout.ms', 'request.timeout.ms', 'max.block.ms']

function settingsOf(producer) {
  const unknown = Object.keys(producer).find(key => !KNOWN.includes(key))
  if (unknown) throw new Error(`KafkaJS has no setting ${unknown}`)
  const request = Number(producer['request.timeout.ms'])
  const delivery = Number(producer['delivery.timeout.ms'])
  return {
    acks: producer.acks === 'all' ? -1 : Number(producer.acks),
    idempotent: producer['enable.idempotence'] === 'true',
    request,
    retries: Math.max(0, Math.floor(delivery / request) - 1)
  }
}

async function connected(setup) {
  const { connection, client, start } = setup
  const protocol = connection.properties?.['security.protocol'] ?? 'PLAINTEXT'
  if (protocol !== 'PLAINTEXT') throw new Error(`this example speaks plain text, not ${protocol}`)
  const settings = settingsOf(connection.producer)
  const retry = { initialRetryTime: 100, maxRetryTime: 500, retries: settings.retries }
  const kafka = new Kafka({
    clientId: `ackloss-${client}.${start}`,
    brokers: connection.bootstrap_servers,
    requestTimeout: settings.request,
    connectionTimeout: 1000,
    retry,
    logLevel: logLevel.ERROR,
    logCreator: () => ({ log }) => process.stderr.write(log.message + '\n')
  })
  const producer = kafka.producer({
    idempotent: settings.idempotent,
    maxInFlightRequests: settings.idempotent ? 1 : null,
    allowAutoTopicCreation: false,
    metadataMaxAge: 1000,
    retry: settings.idempotent ? { ...retry, retries: Math.max(5, settings.retries) } : retry
  })
  await producer.connect()
  return { producer, acks: settings.acks }
}

async function send({ producer, acks }, topic, op) {
  const value = String(op.value).padStart(10, '0')
  const message = { partition: op.partition, key: op.key ?? null, value }
  try {
    const [report] = await producer.send({ topic, acks, messages: [message] })
    const position = Number(report?.baseOffset ?? -1)
    say(position >= 0 ? { type: 'ok', id: op.id, position } : { type: 'ok', id: op.id })
  } catch (error) {
    // The error of the last attempt proves nothing about the attempts before it.
    say({ type: 'info', id: op.id, error: String(error.type ?? error.name).slice(0, 200) })
  }
}

let setup, client
const waiting = new Set()
for await (const line of createInterface({ input: process.stdin })) {
  const op = JSON.parse(line)
  if (op.type === 'setup') {
    setup = op
    try {
      client = await connected(setup)
    } catch (error) {
      say({ type: 'failed', error: String(error.message).slice(0, 200) })
      process.exit(0)
    }
    say({ type: 'ready', name: 'kafkajs', version })
  } else if (op.type === 'close') {
    break
  } else {
    const sent = send(client, setup.connection.topic, op)
    waiting.add(sent)
    sent.finally(() => waiting.delete(sent))
  }
}
const limit = new Promise(resolve => setTimeout(resolve, 2000))
await Promise.race([Promise.all(waiting), limit])
process.exit(0)
