-- One random key of k1 … kN in each request; without N, the path of the URL. Ends with one line of
-- JSON: times in milliseconds, and answers that are errors by what went wrong.

local requests = {}

function init(args)
  math.randomseed(os.time())
  local keys = tonumber(args[1])
  if keys == nil then
    requests[1] = wrk.format()
  end
  for n = 1, keys or 0 do
    requests[n] = wrk.format("GET", "/k" .. n)
  end
end

function request()
  return requests[math.random(#requests)]
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "p50": %.3f, "p99": %.3f, "errors": %d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout
  ))
end
