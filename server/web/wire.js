// What the server says, in the page's own words. The one place that knows the names on the wire.

/** {id, title, opening, system, tip, running, updatedAt, turns} */
export function readSession(session) {
  return {
    id: session.id,
    title: session.name || "",
    opening: session.opening || "",
    system: session.instructions ?? null,
    tip: session.tip ?? null,
    running: session.running ?? null,
    updatedAt: session.updated_at,
    turns: session.num_turns,
  };
}

/** {id, parent, role, text, status, responses, createdAt} */
export function readMessage(message) {
  return {
    id: message.id,
    parent: message.parent ?? null,
    role: message.role,
    text: message.text,
    status: message.status,
    responses: message.responses ?? [],
    createdAt: message.created_at,
  };
}

/** {conversation, title, message, role, snippet}; the words that were found stand between « and ». */
export function readHit(hit) {
  const { session_id: conversation, name: title, message, role, snippet } = hit;
  return { conversation, title, message, role, snippet };
}

/** {total, cached, segments: {start, end, state, message}, miss} */
export function readReport(event) {
  return {
    total: event.input_tokens,
    cached: event.cached_tokens,
    segments: event.segments.map(({ from, to, state, message }) => ({
      start: from,
      end: to,
      state,
      message: message ?? null,
    })),
    miss: event.divergence ? readMiss(event.divergence) : null,
  };
}

/** {status, reason, text, cached, below: {host, disk, store}, input, output, firstMs, perSecond, miss, error, tokensLeft, context} */
export function readEnd({ response }) {
  const { usage, timings } = response;
  return {
    status: response.status,
    reason: response.incomplete_details?.reason ?? null,
    text: response.output[0]?.content[0]?.text ?? null,
    input: usage?.input_tokens ?? null,
    cached: usage?.input_tokens_details.cached_tokens ?? null,
    below: {
      host: timings?.cache_host_n ?? 0,
      disk: timings?.cache_disk_n ?? 0,
      store: timings?.cache_store_n ?? 0,
    },
    output: usage?.output_tokens ?? null,
    firstMs: timings?.ttft_ms ?? null,
    perSecond: timings?.predicted_per_second ?? null,
    miss: response.x_cache?.reason ? readMiss(response.x_cache) : null,
    error: response.error,
    tokensLeft: response.x?.tokens_left ?? null,
    leftOut: response.x?.left_out ?? [],
  };
}

function readMiss(miss) {
  return {
    reason: miss.reason,
    index: miss.index ?? 0,
    message: miss.message ?? null,
    expectedText: miss.expected_text ?? null,
    gotText: miss.got_text ?? null,
    missedTokens: miss.cache_missed_tokens ?? 0,
    evictedSecondsAgo: miss.evicted_seconds_ago ?? null,
  };
}

/** {nodes: {id, parent, start, tokens, idle, superseded, locked, tier, onPath}, pool, cached, free, leftOut} */
export function readTree(event) {
  return {
    nodes: event.nodes.map((node) => ({
      id: node.id,
      parent: node.parent ?? null,
      start: node.start,
      tokens: node.tokens,
      idle: node.seconds_idle,
      superseded: node.superseded,
      locked: node.locked,
      tier: node.tier,
      onPath: node.on_path,
    })),
    pool: event.pool_tokens,
    cached: event.cached_tokens,
    free: event.free_tokens,
    leftOut: event.left_out ?? 0,
  };
}

/** An event without what was not chosen. */
export function without(value) {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null && each !== undefined));
}
