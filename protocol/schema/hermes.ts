// Generated from hermes_protocol. A field with `?` may be left out and then has the default told beside it. Both sides
// ignore what they do not know: a word or a kind may be one of a later version.

export const PROTOCOL_VERSION = "1.0";

/** Params of hermes/event as a client receives them. `data` stays undecoded until its kind is looked up. */
export interface Event {
  sessionId: string;
  epoch: string;
  seq: number;
  prev: number;
  ts: string;
  kind: string;
  data: unknown;
  turnId?: string | null;
  itemId?: string | null;
}

/** The `error` of a JSON-RPC answer. `data.kind` and `data.retryable` are always there. */
export interface ErrorObject {
  code: number;
  message: string;
  data?: Record<string, unknown>; // default {}
}

/** One row of the history a model sees. A `tool` message holds exactly one ToolResult. `deterministic` is set where a middleware answered. */
export interface Message {
  role: "assistant" | "system" | "tool" | "user";
  parts: (TextPart | ReasoningPart | ImagePart | ToolCall | ToolResult)[];
  partial?: boolean; // default false
  itemId?: string | null;
  deterministic?: Deterministic | null;
}

/** Plain text. */
export interface TextPart {
  type: "text";
  text: string;
}

/** Thinking a model showed. `opaque` is provider data that must go back byte for byte (signatures). */
export interface ReasoningPart {
  type: "reasoning";
  text: string;
  opaque?: string | null;
}

/** An image: base64 `data`, or the id of a blob the daemon keeps. */
export interface ImagePart {
  type: "image";
  mime: string;
  data?: string | null;
  blobId?: string | null;
}

/** A call as the model wrote it. `arguments` is the raw JSON text, kept even when it does not parse. `opaque` is provider data that must go back with the call byte for byte (signatures). */
export interface ToolCall {
  type: "toolCall";
  callId: string;
  name: string;
  arguments: string;
  opaque?: string | null;
}

/** The answer to one call: what the model reads. `is_error` marks a failed or refused call. */
export interface ToolResult {
  type: "toolResult";
  callId: string;
  text: string;
  isError?: boolean; // default false
}

/** Who answered in place of a model: the id a middleware gave itself. */
export interface Deterministic {
  middleware: string;
}

export interface SessionCreated {
  session: SessionSummary;
}

/** One row of a session list. `rev` grows with every option, rename and rewind. */
export interface SessionSummary {
  sessionId: string;
  title: string;
  cwd: string;
  model: string;
  state: "compacting" | "idle" | "other" | "running" | "waiting";
  createdAt: string;
  updatedAt: string;
  rev: number;
  usage: Usage;
  occupancyPct?: number | null;
  openRequests?: number; // default 0
  clients?: number; // default 0
  archived?: boolean; // default false
  parent?: string | null;
  snippet?: string | null;
}

/** Tokens of one round or the sum over a turn or session. `input_tokens` counts all that was read, those read from or written to a cache among them. `cost` is in US dollars and absent when no price is known; with `cost_partial` it is only what is known of it. */
export interface Usage {
  inputTokens?: number; // default 0
  outputTokens?: number; // default 0
  cacheReadTokens?: number; // default 0
  cacheWriteTokens?: number; // default 0
  reasoningTokens?: number; // default 0
  cost?: number | null;
  costPartial?: boolean; // default false
}

export interface SessionUpdated {
  session: SessionSummary;
}

export interface SessionOption {
  id: string;
  value: unknown;
  by?: By | null;
}

/** Who did it: the client's persistent id, its name and the way in (chat, say, acp, hook, …). `depth` is the number of agents between a person and this. */
export interface By {
  clientId: string;
  name?: string; // default ""
  via?: string; // default ""
  depth?: number; // default 0
}

export interface CompactionStarted {
  compactionId: string;
  trigger: string;
}

export interface CompactionDelta {
  compactionId: string;
  text: string;
}

export interface CompactionEnded {
  compactionId: string;
  before: number;
  after: number;
  error?: Failure | null;
}

/** What went wrong: `kind` is a word from the error table, `message` a sentence, `data` details. */
export interface Failure {
  kind: string;
  message: string;
  retryable?: boolean; // default false
  data?: Record<string, unknown>; // default {}
}

/** What stood behind `lastItemId` is gone, `removed` items; without it everything. `toItemId` is what was asked for: the same item, or the user message behind it. */
export interface SessionRewound {
  toItemId: string;
  removed: number;
  rev: number;
  lastItemId?: string | null;
}

/** The last event of a session. It is in no journal: that went with the session. */
export interface SessionDeleted {
  by?: By | null;
}

export interface SessionError {
  error: Failure;
}

export interface TurnQueued {
  turnId: string;
  queueId: string;
  position: number;
}

export interface TurnStarted {
  turnId: string;
  input: (TextBlock | ImageBlock | FileBlock)[];
  by: By;
  model?: string; // default ""
}

/** Text the user typed. */
export interface TextBlock {
  type: "text";
  text: string;
}

/** An image the user attached: base64 `data` or a `blobId`. */
export interface ImageBlock {
  type: "image";
  mime: string;
  data?: string | null;
  blobId?: string | null;
}

/** A file the user points at: `path` or `uri`, with an optional range and the text the client sees, given as `text` or as the `blobId` of a text blob. */
export interface FileBlock {
  type: "file";
  path?: string | null;
  uri?: string | null;
  range?: FileRange | null;
  text?: string | null;
  blobId?: string | null;
}

/** Line range, 1-based, inclusive. */
export interface FileRange {
  start: number;
  end: number;
}

export interface TurnSteered {
  turnId: string;
  queueId: string;
  itemId: string;
}

export interface TurnSteerRequeued {
  turnId: string;
  queueId: string;
  newTurnId: string;
}

/** A model call failed and is made again. `model` is set when another model is asked, for the rest of the turn. */
export interface TurnRetrying {
  attempt: number;
  delayMs: number;
  error: Failure;
  model?: string; // default ""
}

/** Exactly one per turn.started. `stop` says why a completed or limited turn stopped. `usage` is not there where no model was asked: middleware answered every round. */
export interface TurnEnded {
  status: "completed" | "failed" | "interrupted" | "limit" | "lost" | "other" | "refused";
  stop?: string; // default ""
  usage?: Usage; // default {}
  error?: Failure | null;
  forced?: boolean; // default false
  dropped?: string[]; // default []
  turns?: TurnCount; // default {}
}

/** Rounds answered by a model and by middleware without one. */
export interface TurnCount {
  model?: number; // default 0
  deterministic?: number; // default 0
}

export interface QueueChanged {
  queue: QueueEntry[];
  queueRev: number;
  paused?: boolean; // default false
}

export interface QueueEntry {
  queueId: string;
  turnId: string;
  input: (TextBlock | ImageBlock | FileBlock)[];
  by: By;
  kind?: "steer" | "turn"; // default "turn"
  createdAt?: string; // default ""
  options?: TurnOptions; // default {}
}

/** For one turn only; session options stand where a field is absent. */
export interface TurnOptions {
  model?: string | null;
  maxRounds?: number | null;
  tools?: string[] | null;
}

export interface ItemStarted {
  item: UserMessage | AgentMessage | Reasoning | ToolCallItem | FileChange | Plan | Subagent | Compaction | NoticeItem;
}

/** `blob` is set where `text` was cut to fit the reader's frame: the whole text is read there. So for all three. */
export interface UserMessage {
  type: "userMessage";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  input: (TextBlock | ImageBlock | FileBlock)[];
  text: string;
  by?: By | null;
  blob?: BlobRef | null;
}

/** Handle of a big output kept by the daemon; read it with hermes/blob/read. */
export interface BlobRef {
  id: string;
  bytes: number;
  lines?: number; // default 0
  sha256?: string; // default ""
  mime?: string; // default "text/plain; charset=utf-8"
}

/** `deterministic` is set where a middleware answered in place of the model. */
export interface AgentMessage {
  type: "agentMessage";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  text: string;
  model: string;
  blob?: BlobRef | null;
  deterministic?: Deterministic | null;
}

export interface Reasoning {
  type: "reasoning";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  text: string;
  model: string;
  blob?: BlobRef | null;
}

/** `args` is the JSON text of the arguments (redacted); `error` is set for failed, refused or unknown calls. */
export interface ToolCallItem {
  type: "toolCall";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  callId: string;
  name: string;
  title: string;
  args: string;
  output?: Output | null;
  exitCode?: number | null;
  error?: string | null;
  durationMs?: number | null;
}

/** A tool's output: `text` whole, or `head` and `tail` around what was left out, with a blob for all of it. */
export interface Output {
  text?: string | null;
  head?: string | null;
  tail?: string | null;
  blob?: BlobRef | null;
}

export interface FileChange {
  type: "fileChange";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  path: string;
  kind: "created" | "deleted" | "modified";
  diff?: string; // default ""
  added?: number; // default 0
  removed?: number; // default 0
}

export interface Plan {
  type: "plan";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  entries?: PlanEntry[]; // default []
}

export interface PlanEntry {
  content: string;
  status?: "cancelled" | "completed" | "in_progress" | "pending"; // default "pending"
}

export interface Subagent {
  type: "subagent";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  childSessionId: string;
  goal: string;
  summary?: string | null;
}

export interface Compaction {
  type: "compaction";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  trigger: string;
  before: number;
  after: number;
  summary?: string | null;
}

export interface NoticeItem {
  type: "notice";
  itemId: string;
  status: "cancelled" | "completed" | "failed" | "inProgress" | "other" | "partial";
  createdAt: string;
  turnId?: string | null;
  completedAt?: string | null;
  level: "error" | "info" | "warning";
  code: string;
  text: string;
}

/** `offset` counts code points already sent for `field`; provisional until item.completed. */
export interface ItemDelta {
  field: string;
  text: string;
  offset: number;
}

export interface ItemProgress {
  text?: string; // default ""
  bytes?: number | null;
}

export interface ItemCompleted {
  item: UserMessage | AgentMessage | Reasoning | ToolCallItem | FileChange | Plan | Subagent | Compaction | NoticeItem;
}

export interface ItemDiscarded {
  reason?: string; // default ""
}

/** A question; the same row stands in snapshots and hermes/request/list. By kind: permission {toolCall, options, reason}; clarify {questions, answered}; secret {prompt, name}; form {prompt, schema}; clientTool {callId, name, args, connectionId}; clientMiddleware {point, payload, connectionId}. */
export interface RequestOpened {
  requestId: string;
  sessionId: string;
  kind: "clarify" | "clientMiddleware" | "clientTool" | "form" | "permission" | "secret";
  turnId?: string | null;
  itemId?: string | null;
  toolCall?: ToolCallAsk | null;
  options?: PermissionOption[]; // default []
  reason?: string; // default ""
  questions?: Question[]; // default []
  prompt?: string | null;
  name?: string | null;
  schema?: Record<string, unknown> | null;
  answered?: QuestionStatus[]; // default []
  callId?: string | null;
  args?: string | null;
  connectionId?: string | null;
  point?: string | null;
  payload?: unknown;
  timeoutMs?: number | null;
  remainingMs?: number | null;
  running?: boolean; // default false
  openedAt?: string; // default ""
}

/** The call a permission is asked for, with its final arguments (redacted). */
export interface ToolCallAsk {
  id: string;
  name: string;
  title: string;
  args: string;
  redacted?: boolean; // default false
  risk?: string; // default ""
}

export interface PermissionOption {
  id: string;
  kind: "allow_always" | "allow_once" | "allow_session" | "deny" | "deny_always";
  label: string;
}

export interface Question {
  id: string;
  text: string;
  choices?: string[]; // default []
  multi?: boolean; // default false
  freeText?: boolean; // default true
}

/** How far one question of a clarify request is; in snapshots for those that come later. */
export interface QuestionStatus {
  id: string;
  status?: "answered" | "open" | "skipped" | "timed_out"; // default "open"
  answer?: ClarifyAnswer | null;
  by?: By | null;
}

/** The answer to one question: one of its choices, several where it is `multi`, free text, or none of it. */
export interface ClarifyAnswer {
  choice?: string | null;
  choices?: string[] | null;
  text?: string | null;
  skip?: boolean; // default false
}

export interface RequestSeen {
  requestId: string;
  by?: By | null;
}

export interface RequestClock {
  requestId: string;
  running: boolean;
  remainingMs: number;
}

export interface RequestAnswered {
  requestId: string;
  questionId: string;
  status: "answered" | "skipped" | "timed_out";
  by?: By | null;
  answer?: ClarifyAnswer | null;
}

/** The end of a question. `value` is "provided" for a secret that was given; the value itself is in no event. */
export interface RequestResolved {
  requestId: string;
  outcome: "allow_always" | "allow_once" | "allow_session" | "answered" | "declined" | "deny" | "deny_always" | "interrupted" | "lost" | "other" | "policy" | "timeout";
  by?: By | null;
  at?: string; // default ""
  feedback?: string | null;
  value?: string | null;
}

export interface Notice {
  level: "error" | "info" | "warning";
  text: string;
  code: string;
}

export interface InitializeParams {
  hermes?: Hello | null;
  initializationOptions?: InitializationOptions | null;
  protocolVersion?: unknown;
}

/** The native part of `initialize`: at the top level as `hermes`, or in `initializationOptions.hermes`. */
export interface Hello {
  protocolVersions?: string[]; // default ["1.0"]
  client?: Client; // default {}
  capabilities?: Capabilities; // default {}
  auth?: Auth | null;
  takeover?: boolean; // default false
}

/** Who connects. `id` is a UUID the frontend keeps, so that a reconnect is recognised. */
export interface Client {
  id?: string; // default ""
  name?: string; // default ""
  version?: string; // default ""
  role?: "controller" | "observer"; // default "controller"
}

/** `requests`: the kinds of questions this client shows. `seen`: it says hermes/request/seen when one of them is on a screen, and the clock of a question waits for that; of other clients it starts when the question was sent. */
export interface Capabilities {
  requests?: string[]; // default []
  seen?: boolean; // default false
  events?: EventOptions; // default {}
  telemetry?: "all" | "metrics" | "off"; // default "off"
  maxLatencyMs?: number; // default 33
  maxFrameBytes?: number; // default 1048576
  maxInlineBytes?: number; // default 65536
  middlewareTrace?: boolean; // default false
  experimental?: string[]; // default []
}

export interface EventOptions {
  detail?: "final" | "full" | "status"; // default "full"
  sessions?: boolean; // default false
}

export interface Auth {
  token?: string; // default ""
}

export interface InitializationOptions {
  hermes?: Hello | null;
}

export interface InitializeResult {
  serverInfo: ServerInfo;
  capabilities: ServerCapabilities;
}

export interface ServerInfo {
  name: string;
  version: string;
}

export interface ServerCapabilities {
  experimental: ExperimentalCapabilities;
}

export interface ExperimentalCapabilities {
  hermes: Welcome;
}

export interface Welcome {
  protocolVersion: string;
  bootId: string;
  buildId: string;
  stale: boolean;
  schemaHash: string;
  connectionId: string;
  limits: Limits;
  features: string[];
  requestKinds: string[];
}

/** What this daemon takes, every number said: a client that was written by hand knows no defaults. */
export interface Limits {
  maxFrameBytes?: number; // default 8388608
  maxInlineBytes?: number; // default 65536
  maxBatch?: number; // default 64
  maxInFlight?: number; // default 64
}

/** No fields. */
export interface Empty {
}

export interface StatusResult {
  pid: number;
  bootId: string;
  buildId: string;
  version: string;
  stale: boolean;
  uptimeS: number;
  endpoints: string[];
  connections: ConnectionRow[];
  sessions: SessionCounts;
  turns: number;
  openRequests: number;
  children: number;
  rssBytes: number;
  idle: Idle;
  state?: "draining" | "ready" | "stopping"; // default "ready"
  home?: string; // default ""
  storage?: string; // default "ok"
  warnings?: string[]; // default []
  handover?: Handover | null;
}

export interface ConnectionRow {
  id: string;
  client: string;
  role: "controller" | "observer";
  queueBytes: number;
  lagging: boolean;
  name?: string; // default ""
  dialect?: string; // default "native"
  transport?: string; // default "unix"
}

export interface SessionCounts {
  live: number;
  busy: number;
}

/** `holders` names what keeps the daemon alive; `exits_in_s` counts down only while quiescent. */
export interface Idle {
  quiescent: boolean;
  exitsInS: number | null;
  holders: string[];
}

/** How a daemon gives way. `state` stale: another build is installed, it leaves as soon as it is quiescent. draining, stopping: `deadline_s` is what is left of the time for turns, `restart` whether another is to follow. */
export interface Handover {
  state: "draining" | "stale" | "stopping";
  restart: boolean;
  reason?: string; // default ""
  deadlineS?: number | null;
  waitingFor?: string[]; // default []
}

export interface PingParams {
  echo?: unknown;
}

export interface PingResult {
  monotonicMs: number;
  echo?: unknown;
}

export interface ShutdownParams {
  mode: "drain" | "now";
  deadlineS?: number | null;
  reason?: string; // default ""
  restart?: boolean; // default false
}

export interface ShutdownResult {
  accepted: boolean;
  waitingFor?: string[]; // default []
}

export interface LogsParams {
  lines?: number; // default 200
  level?: "debug" | "error" | "info" | "warning" | null;
}

export interface LogsResult {
  lines: string[];
}

/** Prometheus text, as GET /metrics answers it. */
export interface MetricsResult {
  text: string;
  contentType: string;
}

/** `plugins` names those to load again, with those that need them; without it all of them are. */
export interface ReloadParams {
  what?: ("config" | "plugins" | "tools")[]; // default ["config"]
  plugins?: string[]; // default []
}

export interface ReloadResult {
  changed: string[];
  errors: string[];
  warnings?: string[]; // default []
}

export interface SchemaParams {
  format: "jsonschema" | "openrpc";
  experimental?: boolean; // default false
}

export interface SchemaResult {
  document: unknown;
  schemaHash: string;
}

export interface CreateParams {
  cwd: string;
  title?: string; // default ""
  model?: string | null;
  options?: SessionOptions; // default {}
  env?: Record<string, string>; // default {}
  parent?: string | null;
  key?: string | null;
}

/** Options of a session. `unattended` says what happens to questions nobody can see: wait, deny, or the name of a rule in the setting approvals.unattended, which allows the calls it names and denies the rest. */
export interface SessionOptions {
  model?: string | null;
  mode?: "manual" | "off" | "smart" | null;
  unattended?: string; // default "wait"
  toolsets?: string[] | null;
  thinking?: string | null;
}

export interface CreateResult {
  session: SessionSummary;
  seq: number;
  epoch: string;
  duplicate?: boolean; // default false
}

export interface ListParams {
  cursor?: string | null;
  limit?: number; // default 50
  cwd?: string | null;
  query?: string | null;
  archived?: boolean | null;
}

export interface ListResult {
  sessions: SessionSummary[];
  nextCursor?: string | null;
}

export interface SessionParams {
  sessionId: string;
}

export interface GetResult {
  session: SessionSummary;
  options: SessionOptions;
  state: "compacting" | "idle" | "other" | "running" | "waiting";
  epoch: string;
  head: number;
}

export interface SubscribeParams {
  sessionId: string;
  since?: Cursor | null;
  tail?: number; // default 200
  detail?: "final" | "full" | "status" | null;
}

export interface Cursor {
  epoch: string;
  seq: number;
}

/** The stream continues after `seq`; the first event's `prev` equals it. */
export interface SubscribeResult {
  mode: "replay" | "snapshot";
  epoch: string;
  seq: number;
  head: number;
  snapshot?: Snapshot | null;
}

export interface Snapshot {
  summary: SessionSummary;
  options: SessionOptions;
  rev: number;
  state: "compacting" | "idle" | "other" | "running" | "waiting";
  items: (UserMessage | AgentMessage | Reasoning | ToolCallItem | FileChange | Plan | Subagent | Compaction | NoticeItem)[];
  inflight: InFlight[];
  openRequests: RequestOpened[];
  queue: QueueEntry[];
  queueRev: number;
  paused: boolean;
  usage: Usage;
  turn?: OpenTurn | null;
  olderCursor?: string | null;
}

/** An open item: everything said so far; deltas continue at `offset` (code points of `text`). `before` is the first of the snapshot's completed items that began after it; without, it stands behind them all. */
export interface InFlight {
  item: UserMessage | AgentMessage | Reasoning | ToolCallItem | FileChange | Plan | Subagent | Compaction | NoticeItem;
  field: string;
  text: string;
  offset: number;
  before?: string | null;
}

export interface OpenTurn {
  turnId: string;
  startedAt: string;
  input: (TextBlock | ImageBlock | FileBlock)[];
}

export interface ItemsParams {
  sessionId: string;
  before?: string | null;
  after?: string | null;
  limit?: number; // default 100
  order?: "asc" | "desc"; // default "asc"
}

export interface ItemsResult {
  items: (UserMessage | AgentMessage | Reasoning | ToolCallItem | FileChange | Plan | Subagent | Compaction | NoticeItem)[];
  nextCursor?: string | null;
}

export interface WaitParams {
  sessionId: string;
  until: "idle" | "seq" | "turn";
  turnId?: string | null;
  seq?: number | null;
  timeoutMs?: number; // default 60000
}

/** `reached` is false when the time was up first. */
export interface WaitResult {
  state: "compacting" | "idle" | "other" | "running" | "waiting";
  seq: number;
  reached?: boolean; // default true
}

export interface SetOptionParams {
  sessionId: string;
  id: string;
  value: unknown;
  expectRev?: number | null;
  key?: string | null;
}

export interface SetOptionResult {
  options: SessionOptions;
  rev: number;
  seq: number;
}

export interface RenameParams {
  sessionId: string;
  title: string;
  expectRev?: number | null;
  key?: string | null;
}

export interface ArchiveParams {
  sessionId: string;
  archived?: boolean; // default true
  key?: string | null;
}

/** Events after the number `after`, at most `limit` of them. */
export interface EventsParams {
  sessionId: string;
  epoch: string;
  after: number;
  limit?: number; // default 500
}

/** `events` as hermes/event carries them; each `prev` is the number before it in this stream, the first one's is `after`. `truncated`: there are more, ask again after the last. */
export interface EventsResult {
  events: Event[];
  head: number;
  truncated?: boolean; // default false
}

/** `atItemId` is the last item the new session has; without, all completed ones. */
export interface ForkParams {
  sessionId: string;
  atItemId?: string | null;
  title?: string | null;
  key?: string | null;
}

/** Everything behind the item `toItemId` goes; a user message named here goes too, to be asked again. */
export interface RewindParams {
  sessionId: string;
  toItemId: string;
  expectRev: number;
  key?: string | null;
}

/** `removed` counts items; `input` is what the user message said that was taken back. */
export interface RewindResult {
  rev: number;
  removed: number;
  seq: number;
  input?: (TextBlock | ImageBlock | FileBlock)[]; // default []
}

export interface DeleteParams {
  sessionId: string;
  key?: string | null;
}

export interface SearchParams {
  query: string;
  limit?: number; // default 20
  cwd?: string | null;
}

export interface SearchResult {
  hits: SearchHit[];
}

export interface SearchHit {
  sessionId: string;
  itemId: string;
  title: string;
  role: string;
  snippet: string;
  at: string;
}

/** What this connection offers the session, in place of what it offered before; gone with the connection. */
export interface RegisterParams {
  sessionId: string;
  tools?: ClientTool[]; // default []
  middleware?: ClientMiddleware[]; // default []
}

/** A tool that this connection runs for the session. `parameters` is a JSON Schema of type object. */
export interface ClientTool {
  name: string;
  description: string;
  parameters?: Record<string, unknown>; // default {}
  readOnly?: boolean; // default false
  timeoutMs?: number; // default 60000
}

/** A middleware that this connection runs for the session: a request of kind clientMiddleware at `point`, answered within `timeoutMs` with the result null (no change), a replacement of the same shape as the payload, or a directive at pre_tool_call. `failClosed`: without an answer the call is stopped instead of going on unchanged. */
export interface ClientMiddleware {
  point: "llm_request" | "output" | "pre_tool_call" | "tool_request" | "tool_result";
  timeoutMs?: number; // default 10000
  failClosed?: boolean; // default false
}

export interface RegisterResult {
  tools: string[];
  middleware?: string[]; // default []
}

/** Input for a turn. `depth` counts the agents between a person and this input, 0 for a person's own: a program that a tool call started passes on what HERMES_AGENT_DEPTH says; more than 3 is refused (permission_denied). */
export interface SubmitParams {
  sessionId: string;
  input: (TextBlock | ImageBlock | FileBlock)[];
  key: string;
  whenBusy?: "interrupt" | "queue" | "reject" | "steer"; // default "queue"
  expectRev?: number | null;
  position?: number | null;
  options?: TurnOptions; // default {}
  depth?: number; // default 0
}

export interface SubmitResult {
  disposition: "queued" | "started" | "steered";
  turnId: string;
  seq: number;
  itemId?: string | null;
  queueId?: string | null;
  duplicate?: boolean; // default false
}

/** Input for the turn `turnId`, taken at its next model call; turn_mismatch when it is not the running one. `depth` as in submit. */
export interface SteerParams {
  sessionId: string;
  turnId: string;
  input: (TextBlock | ImageBlock | FileBlock)[];
  key: string;
  depth?: number; // default 0
}

export interface SteerResult {
  status: "accepted";
  queueId: string;
  seq: number;
  duplicate?: boolean; // default false
}

export interface InterruptParams {
  sessionId: string;
  turnId?: string | null;
  queue?: "clear" | "keep" | "pause"; // default "keep"
  reason?: string; // default ""
  key?: string | null;
}

export interface InterruptResult {
  status: "alreadyEnding" | "interrupting" | "notActive";
  seq: number;
  turnId?: string | null;
}

export interface QueueParams {
  sessionId: string;
  key?: string | null;
}

export interface QueueResult {
  queue: QueueEntry[];
  queueRev: number;
  paused: boolean;
}

export interface QueueUpdateParams {
  sessionId: string;
  queueId: string;
  input: (TextBlock | ImageBlock | FileBlock)[];
  expectQueueRev?: number | null;
  key?: string | null;
}

/** `order`: queue ids, first to run first; entries that it does not name keep their order behind them. */
export interface QueueReorderParams {
  sessionId: string;
  order: string[];
  expectQueueRev?: number | null;
  key?: string | null;
}

export interface QueueRemoveParams {
  sessionId: string;
  queueId: string;
  expectQueueRev?: number | null;
  key?: string | null;
}

export interface RequestListParams {
  sessionId?: string | null;
}

export interface RequestListResult {
  requests: RequestOpened[];
}

export interface AnswerParams {
  requestId: string;
  answer: Answer;
  key?: string | null;
}

/** Shapes by kind: permission {optionId, feedback?}; clarify {answers}; secret {value}; form {values}; clientTool and clientMiddleware {result}|{error}; any {decline: true}. */
export interface Answer {
  optionId?: string | null;
  feedback?: string | null;
  answers?: Record<string, ClarifyAnswer> | null;
  value?: string | null;
  values?: Record<string, unknown> | null;
  result?: unknown;
  error?: string | null;
  decline?: boolean; // default false
}

/** `outcome` is how the request ended; "open" when questions of it still wait, "declined" when others may still answer. `late` names the questions of this answer that somebody else had answered before. */
export interface AnswerResult {
  status: "accepted";
  seq: number;
  outcome?: string; // default ""
  late?: string[]; // default []
}

export interface ToolListParams {
  sessionId?: string | null;
}

export interface ToolListResult {
  tools: ToolRow[];
}

export interface ToolRow {
  name: string;
  toolset: string;
  description: string;
  source: string;
  state: string;
  readOnly?: boolean; // default false
  parameters?: Record<string, unknown>; // default {}
  lastError?: string | null;
}

export interface PluginListResult {
  plugins: PluginRow[];
}

/** One plugin. `state`: loaded; enabled, but not loaded; disabled; failed and retired with `detail`. */
export interface PluginRow {
  id: string;
  name: string;
  version: string;
  source: string;
  state: string;
  description?: string; // default ""
  detail?: string; // default ""
  tools?: string[]; // default []
  points?: string[]; // default []
  commands?: string[]; // default []
  problems?: string[]; // default []
  settings?: PluginSetting[]; // default []
}

/** A setting of a plugin, from its manifest. `given` is true where config.yaml has it; else `value` is the default, null for none. A secret's value is `(set)` or null. */
export interface PluginSetting {
  key: string;
  type: string;
  description?: string; // default ""
  value?: unknown;
  given?: boolean; // default false
  choices?: unknown[]; // default []
}

/** `by` is "plugins-doctor" when that plugin made all checks, "host" when it is not loaded: then seams and stale_import were not looked at. */
export interface PluginDoctorResult {
  rows: DoctorRow[];
  by?: "host" | "plugins-doctor"; // default "host"
}

/** A finding about the plugins. `check`: links, settings, load, seams, stale_import; `plugin` is its id, or "host"; `severity`: ok, warn, fail. */
export interface DoctorRow {
  check: string;
  plugin: string;
  severity: "fail" | "ok" | "warn";
  detail?: string; // default ""
}

export interface HookListResult {
  hooks: HookRow[];
  problems?: string[]; // default []
}

/** A shell hook. `allowed` is false until the user has consented to this very command. */
export interface HookRow {
  event: string;
  command: string;
  matcher?: string; // default ""
  timeoutS?: number; // default 60.0
  allowed?: boolean; // default false
}

/** Consent to a command at an event, or take it back. */
export interface HookAllowParams {
  event: string;
  command: string;
  allowed?: boolean; // default true
}

export interface CommandListResult {
  commands: CommandRow[];
}

/** A command that a plugin brings: `kind` slash for clients' prompts, cli for the shell. */
export interface CommandRow {
  name: string;
  kind: "cli" | "slash";
  description?: string; // default ""
  argsHint?: string; // default ""
  plugin?: string; // default ""
}

export interface CommandRunParams {
  name: string;
  arguments?: string; // default ""
  kind?: "cli" | "slash"; // default "slash"
  sessionId?: string | null;
}

/** `text` for people, `data` for programs, `exit_code` for the shell. */
export interface CommandRunResult {
  text: string;
  exitCode?: number; // default 0
  data?: unknown;
}

export interface MiddlewareListResult {
  middleware: MiddlewareRow[];
}

export interface MiddlewareRow {
  point: string;
  style: string;
  owner: string;
  order: number;
}

/** Bring a big input, in pieces: the first without `blobId` and at offset 0, the others behind what is there. `data` is text, or base64 where `encoding` says so; `final` closes the blob. */
export interface BlobCreateParams {
  sessionId: string;
  data: string;
  blobId?: string | null;
  mime?: string; // default "text/plain; charset=utf-8"
  encoding?: "base64" | "utf8"; // default "utf8"
  offset?: number; // default 0
  final?: boolean; // default true
  key?: string | null;
}

/** `bytes` is what is there now: the offset of the next piece. */
export interface BlobCreateResult {
  blobId: string;
  bytes: number;
}

export interface BlobReadParams {
  blobId: string;
  offset?: number; // default 0
  limit?: number; // default 65536
  encoding?: "base64" | "utf8"; // default "utf8"
}

export interface BlobReadResult {
  data: string;
  eof: boolean;
  total: number;
  nextOffset: number;
}

export interface ModelsParams {
  probe?: boolean; // default false
}

export interface ModelsResult {
  models: ModelRow[];
  default: string;
}

/** One model: `id` is what `--model` takes (provider/name); `state` ready, missing or unreachable with a reason. `vision`, `reasoning`, `cache`, the prices (US dollars for a million tokens) and `efforts` (the reasoning efforts it takes) are left out where they are not known. `price_from` says who told the prices: settings, endpoint, or bundled and the day they were noted. */
export interface ModelRow {
  id: string;
  provider: string;
  contextLength?: number | null;
  maxOutput?: number | null;
  tools?: boolean; // default true
  default?: boolean; // default false
  state?: string; // default "ready"
  note?: string; // default ""
  vision?: boolean | null;
  reasoning?: boolean | null;
  efforts?: string[] | null;
  inputPrice?: number | null;
  outputPrice?: number | null;
  priceFrom?: string; // default ""
  cache?: boolean | null;
}

export interface AuthListResult {
  keys: AuthRow[];
}

/** Where a key of a provider is looked for. `kind` is variable, keyring, file or none; `state` is set, missing, not read (only a call or a test reads it) or not needed. The key itself is in no answer. */
export interface AuthRow {
  provider: string;
  source: string;
  kind: string;
  state: string;
  note?: string; // default ""
}

/** Without `provider`: every one that is configured or has a key. */
export interface AuthTestParams {
  provider?: string | null;
}

export interface AuthTestResult {
  tests: AuthTested[];
}

/** `kind` is ok, missing, or what went wrong in the words of turn errors (auth, network, rate, …). */
export interface AuthTested {
  provider: string;
  source: string;
  ok: boolean;
  kind: string;
  message: string;
  models?: number; // default 0
}

/** `value` is kept in `store` and never told again; null takes the key out of it. `env` is .env of the daemon's home, mode 0600. */
export interface AuthSetParams {
  provider: string;
  value: string | null;
  store?: "env" | "keyring"; // default "env"
}

export interface AuthSetResult {
  keys: AuthRow[];
  where: string;
  warnings?: string[]; // default []
}

export interface UsageParams {
  sessionId?: string | null;
}

/** The sum, and the same by model and by task, the most tokens first. */
export interface UsageResult {
  usage: Usage;
  turns: number;
  byModel?: SpentRow[]; // default []
  byTask?: SpentRow[]; // default []
}

/** What `calls` model calls used together. `name` is a model's id, or a task: main, compression, title, judge. */
export interface SpentRow {
  name: string;
  calls: number;
  usage: Usage;
}

export interface ConfigGetParams {
  path?: string; // default ""
}

export interface ConfigGetResult {
  value: unknown;
  source: string;
}

/** `value` null takes the setting out of the file, back to its default. */
export interface ConfigSetParams {
  path: string;
  value: unknown;
  key?: string | null;
}

/** `changed`: dotted keys that have another value now. `file` is where it was written. */
export interface ConfigSetResult {
  value: unknown;
  changed: string[];
  file: string;
  warnings?: string[]; // default []
}

export interface CancelParams {
  id: string | number;
}

export interface SeenParams {
  requestId: string;
}

export interface DesyncParams {
  sessionId: string;
  lastSeq: number;
  reason: "journal" | "lag";
}

export interface LagParams {
  sessionId: string;
  detail: "final" | "full";
}

/** A row of a session list as it is now. `deleted`: as it was last, it is to be taken out. */
export interface SessionChangedParams {
  sessionId: string;
  summary: SessionSummary;
  deleted?: boolean; // default false
}

export interface DaemonStateParams {
  state: "draining" | "ready" | "stopping";
  reason?: string; // default ""
  restart?: boolean; // default false
  deadlineS?: number | null;
}

/** One fact about work done. `attrs` are flat: numbers, strings, truth values. */
export interface TelemetryParams {
  name: string;
  attrs: Record<string, unknown>;
  sessionId?: string | null;
  turnId?: string | null;
}

export interface LogMessageParams {
  type: number;
  message: string;
}

/** Every request of a client. */
export interface Methods {
  "initialize": { params: InitializeParams; result: InitializeResult };
  "shutdown": { params: Empty; result: null };
  "hermes/daemon/status": { params: Empty; result: StatusResult };
  "hermes/daemon/ping": { params: PingParams; result: PingResult };
  "hermes/daemon/shutdown": { params: ShutdownParams; result: ShutdownResult };
  "hermes/daemon/logs": { params: LogsParams; result: LogsResult };
  "hermes/daemon/metrics": { params: Empty; result: MetricsResult };
  "hermes/daemon/reload": { params: ReloadParams; result: ReloadResult };
  "hermes/schema/get": { params: SchemaParams; result: SchemaResult };
  "hermes/session/create": { params: CreateParams; result: CreateResult };
  "hermes/session/list": { params: ListParams; result: ListResult };
  "hermes/session/get": { params: SessionParams; result: GetResult };
  "hermes/session/subscribe": { params: SubscribeParams; result: SubscribeResult };
  "hermes/session/unsubscribe": { params: SessionParams; result: Empty };
  "hermes/session/items": { params: ItemsParams; result: ItemsResult };
  "hermes/session/wait": { params: WaitParams; result: WaitResult };
  "hermes/session/setOption": { params: SetOptionParams; result: SetOptionResult };
  "hermes/session/rename": { params: RenameParams; result: GetResult };
  "hermes/session/archive": { params: ArchiveParams; result: GetResult };
  "hermes/session/events": { params: EventsParams; result: EventsResult };
  "hermes/session/fork": { params: ForkParams; result: CreateResult };
  "hermes/session/rewind": { params: RewindParams; result: RewindResult };
  "hermes/session/delete": { params: DeleteParams; result: Empty };
  "hermes/session/search": { params: SearchParams; result: SearchResult };
  "hermes/session/register": { params: RegisterParams; result: RegisterResult };
  "hermes/turn/submit": { params: SubmitParams; result: SubmitResult };
  "hermes/turn/steer": { params: SteerParams; result: SteerResult };
  "hermes/turn/interrupt": { params: InterruptParams; result: InterruptResult };
  "hermes/queue/list": { params: QueueParams; result: QueueResult };
  "hermes/queue/update": { params: QueueUpdateParams; result: QueueResult };
  "hermes/queue/reorder": { params: QueueReorderParams; result: QueueResult };
  "hermes/queue/remove": { params: QueueRemoveParams; result: QueueResult };
  "hermes/queue/resume": { params: QueueParams; result: QueueResult };
  "hermes/request/list": { params: RequestListParams; result: RequestListResult };
  "hermes/request/answer": { params: AnswerParams; result: AnswerResult };
  "hermes/tool/list": { params: ToolListParams; result: ToolListResult };
  "hermes/plugin/list": { params: Empty; result: PluginListResult };
  "hermes/plugin/doctor": { params: Empty; result: PluginDoctorResult };
  "hermes/hook/list": { params: Empty; result: HookListResult };
  "hermes/hook/allow": { params: HookAllowParams; result: HookListResult };
  "hermes/command/list": { params: Empty; result: CommandListResult };
  "hermes/command/run": { params: CommandRunParams; result: CommandRunResult };
  "hermes/middleware/list": { params: ToolListParams; result: MiddlewareListResult };
  "hermes/blob/create": { params: BlobCreateParams; result: BlobCreateResult };
  "hermes/blob/read": { params: BlobReadParams; result: BlobReadResult };
  "hermes/models/list": { params: ModelsParams; result: ModelsResult };
  "hermes/auth/list": { params: Empty; result: AuthListResult };
  "hermes/auth/test": { params: AuthTestParams; result: AuthTestResult };
  "hermes/auth/set": { params: AuthSetParams; result: AuthSetResult };
  "hermes/usage/get": { params: UsageParams; result: UsageResult };
  "hermes/config/get": { params: ConfigGetParams; result: ConfigGetResult };
  "hermes/config/set": { params: ConfigSetParams; result: ConfigSetResult };
}

/** What the client announces. */
export interface ClientNotifications {
  "initialized": Empty;
  "exit": Empty;
  "$/cancelRequest": CancelParams;
  "$/setTrace": Empty;
  "hermes/request/seen": SeenParams;
}

/** What the daemon announces. */
export interface DaemonNotifications {
  "hermes/event": Event;
  "hermes/desync": DesyncParams;
  "hermes/lag": LagParams;
  "hermes/session/changed": SessionChangedParams;
  "hermes/daemon/state": DaemonStateParams;
  "telemetry/event": TelemetryParams;
  "window/logMessage": LogMessageParams;
}

/** The `data` of hermes/event by its `kind`. */
export interface Events {
  "session.created": SessionCreated;
  "session.updated": SessionUpdated;
  "session.option": SessionOption;
  "session.compaction.started": CompactionStarted;
  "session.compaction.delta": CompactionDelta;
  "session.compaction.ended": CompactionEnded;
  "session.rewound": SessionRewound;
  "session.deleted": SessionDeleted;
  "session.error": SessionError;
  "turn.queued": TurnQueued;
  "turn.started": TurnStarted;
  "turn.steered": TurnSteered;
  "turn.steerRequeued": TurnSteerRequeued;
  "turn.retrying": TurnRetrying;
  "turn.ended": TurnEnded;
  "queue.changed": QueueChanged;
  "item.started": ItemStarted;
  "item.delta": ItemDelta;
  "item.progress": ItemProgress;
  "item.completed": ItemCompleted;
  "item.discarded": ItemDiscarded;
  "request.opened": RequestOpened;
  "request.seen": RequestSeen;
  "request.clock": RequestClock;
  "request.answered": RequestAnswered;
  "request.resolved": RequestResolved;
  "notice": Notice;
}

/** A hermes/event of a kind that this version knows. */
export type KnownEvent = { [K in keyof Events]: Omit<Event, 'kind' | 'data'> & { kind: K; data: Events[K] } }[keyof Events];

/** `error.data.kind` is what a program looks at; the code is for JSON-RPC. */
export const ERROR_CODES = {
  parse: -32700,
  invalid_request: -32600,
  method_not_found: -32601,
  invalid_params: -32602,
  internal: -32603,
  not_initialized: -32002,
  cancelled: -32800,
  stale_revision: -32801,
  server_cancelled: -32802,
  failed: -32803,
  session_not_found: -32040,
  session_deleted: -32041,
  item_not_found: -32042,
  blob_not_found: -32042,
  queue_not_found: -32042,
  request_not_found: -32042,
  not_subscribed: -32043,
  turn_in_progress: -32044,
  turn_mismatch: -32045,
  already_resolved: -32046,
  idempotency_conflict: -32047,
  permission_denied: -32048,
  experimental_required: -32049,
  overloaded: -32050,
  draining: -32051,
  auth_required: -32052,
  auth_failed: -32052,
  provider_error: -32053,
  replay_truncated: -32054,
  too_large: -32055,
  version_unsupported: -32056,
  storage_error: -32057,
} as const;
