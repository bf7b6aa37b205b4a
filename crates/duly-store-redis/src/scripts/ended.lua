-- Stubs of ended timers: s:<num>:<id> by TTL; sl:<num> in order of ending; sd:<num>:F and :C in
-- order of due times, for lists.

-- Takes a stub away.
local function drop_stub(num, id)
  write('DEL', K .. 's:' .. num .. ':' .. id)
  write('ZREM', K .. 'sl:' .. num, id)
  write('ZREM', K .. 'sd:' .. num .. ':F', id)
  write('ZREM', K .. 'sd:' .. num .. ':C', id)
end

-- The number of the next ending: the order of endings is theirs, not the clock's.
local function next_ended(num)
  return tonumber(call('HGET', K .. 'c:' .. num, 'ended') or '0') + 1
end

-- Keeps a stub for the retention, and drops those that ended first while there are too many.
local function keep_stub(ctl, id, kind, due, stub)
  local num = ctl.num
  if ctl.retention <= 0 or ctl.a_retained <= 0 then return end
  local list = K .. 'sl:' .. num
  local over = call('ZCARD', list) + 1 - ctl.a_retained
  if call('ZSCORE', list, id) then over = over - 1 end
  if over > 0 then
    for _, old in ipairs(call('ZRANGE', list, 0, math.min(over, 16) - 1)) do
      if old ~= id then drop_stub(num, old) end
    end
  end
  local number = next_ended(num)
  write('HSET', K .. 'c:' .. num, 'ended', number)
  write('SET', K .. 's:' .. num .. ':' .. id, stub, 'PXAT', digits(now + ctl.retention))
  write('ZADD', list, number, id)
  write('ZADD', K .. 'sd:' .. num .. ':' .. kind, digits(due), id)
end

-- Whether a stub is over.
local function stub_is_over(ctl, stub)
  return stub == '' or time_at(stub, 2) + ctl.retention <= now
end
