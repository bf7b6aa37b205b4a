-- Reads the clock: TIME of the master that runs the script, in Unix milliseconds, rounded down (P2).
-- Tests replace this part by a clock of their own.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
