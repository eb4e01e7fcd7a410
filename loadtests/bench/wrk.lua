-- Arguments: which keys ("one", "random" or "new"), of how many links, seconds, connections,
-- the path, and for "new" the body of the create, with a random number in the place of %d. Requests
-- the path with a number after it. When the time is over, each connection waits for its last answer,
-- so that every request is answered, and then wrk ends. Prints one line of JSON: all answers, those
-- without an error per second of the given time, and times in milliseconds.

local ffi = require("ffi")
ffi.cdef [[
  struct moment { long seconds, nanoseconds; };
  int clock_gettime(int clock, struct moment *now);
  int getpid(void);
  int kill(int process, int signal);
]]
local INTERRUPT = 2
local moment = ffi.new("struct moment")
local threads = {}
local ROUNDS = 4096 -- of a key space of the lab
local kind, links, path, body
local requests = {} -- the text before and after a key, for each kind of visit
-- What browsers send, so that visits are of several kinds.
local AGENTS = {
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    .. "Chrome/129.0.0.0 Safari/537.36",
  "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) "
    .. "Chrome/129.0.0.0 Mobile Safari/537.36",
  "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 "
    .. "(KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
  "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0",
}
local REFERRERS = { "https://news.example/", "https://search.example/?q=a", "https://mail.example/" }

calls, answered, drained = 0, 0, 0 -- done() reads them

function setup(thread)
  table.insert(threads, thread)
end

local function clock()
  ffi.C.clock_gettime(0, moment)
  return tonumber(moment.seconds) + tonumber(moment.nanoseconds) / 1e9
end

function init(args)
  kind, links = args[1], tonumber(args[2])
  seconds, connections = tonumber(args[3]), tonumber(args[4])
  path, body = args[5], args[6]
  math.randomseed(clock() * 1e6 % 2 ^ 31)
  if kind == "new" then
    return
  end
  for _, agent in ipairs(AGENTS) do
    for _, referrer in ipairs(REFERRERS) do
      local headers = { ["User-Agent"] = agent, Referer = referrer }
      local first, last = wrk.format("GET", path .. "\0", headers):match("^(.*)%z(.*)$")
      table.insert(requests, { first, last })
    end
  end
end

local function make_request()
  if kind == "new" then
    local headers = { ["Content-Type"] = "application/json" }
    return wrk.format("POST", path, headers, body:format(math.random(ROUNDS) - 1))
  end
  local of_a_kind = requests[math.random(#requests)]
  local number = kind == "one" and 1 or math.random(links)
  return of_a_kind[1] .. string.format("%d", number) .. of_a_kind[2]
end

-- wrk calls this once at its start to look at a request, and then for each request. For a request
-- without text it sends nothing, and waits for an answer that does not come.
function request()
  if not looked_at then
    looked_at = true
    return make_request()
  end
  local now = clock()
  calls = calls + 1
  start = start or now
  if now - start < seconds then
    answered = calls > connections and answered + 1 or 0
    return make_request()
  end
  drained = drained + 1
  if drained == connections then
    ffi.C.kill(ffi.C.getpid(), INTERRUPT)
  end
  return ""
end

function done(summary, latency, _)
  local e, total, unanswered = summary.errors, 0, 0
  local good = 1 - summary.errors.status / math.max(1, summary.requests)
  for _, thread in ipairs(threads) do
    total = total + thread:get("answered") / thread:get("seconds")
    unanswered = unanswered + thread:get("connections") - thread:get("drained")
  end
  io.write(string.format(
    '{"requests": %d, "per_second": %.3f, "p50": %.3f, "p99": %.3f, "p999": %.3f, "errors": '
    .. '{"not connected": %d, "not read": %d, "not written": %d, "an error as the answer": %d, '
    .. '"too late": %d, "not answered": %d}}\n',
    summary.requests, total * good, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3,
    e.connect, e.read, e.write, e.status, e.timeout, unanswered
  ))
end
