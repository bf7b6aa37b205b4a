-- Takes acknowledgements of firings of one namespace (P3, P8). Each stands for itself; all of them
-- share the writes, key by key.
--
-- KEYS  seq
-- ARGV  1 number of the namespace  2 name that the caller believes in, or '', then for each: id; nonce
-- reply now, then a word for each: OK | LOST | INVALID (a token of another namespace) |
--       SLOW (not held: look whether it was settled before, or ended by the clock)
local num = ARGV[1]
local ctl = control(num)
local out = { digits(now) }
if not ctl or (ARGV[2] ~= '' and ARGV[2] ~= ctl.name) then
  for i = 3, #ARGV, 2 do out[#out + 1] = ctl and 'INVALID' or 'LOST' end
  call('INCR', KEYS[1])
  return out
end
local R, X, C = K .. 'r:' .. num, K .. 'x:' .. num, K .. 'c:' .. num
local ids = {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local holds, records = call('HMGET', X, unpack(ids)), call('HMGET', R, unpack(ids))
local keeps = ctl.retention > 0 and ctl.a_retained > 0
local number = next_ended(num) - 1
local ended, bytes, in_flight = 0, 0, {}
local at_now, over_at = time_bytes(now), digits(now + ctl.retention)
for k, id in ipairs(ids) do
  local hold, record = holds[k], records[k]
  local lease = hold and record and lease_of(hold)
  if not lease or lease.nonce ~= ARGV[2 + k * 2] or is_over(lease) then
    out[k + 1] = 'SLOW'
  else
    out[k + 1] = 'OK'
    local lane, due = lane_of(record), due_of(record)
    ended, bytes = ended + 1, bytes + cost_of(id, record)
    in_flight[lane] = (in_flight[lane] or 0) + 1
    local list = K .. 'leased'
    if lease.who ~= 'C' then list = K .. 'own:' .. lease.who end
    gather('ZREM', list, num .. NUL .. id)
    gather('HDEL', X, id)
    gather('HDEL', R, id)
    gather('ZREM', K .. 'b:' .. num, id)
    if lies_apart(record) then gather('HDEL', K .. 'p:' .. num, id) end
    if keeps then
      number = number + 1
      local stub = 'F' .. at_now .. string.char(#hold) .. hold .. core_of(record)
      write('SET', K .. 's:' .. num .. ':' .. id, stub, 'PXAT', over_at)
      gather('ZADD', K .. 'sl:' .. num, number, id)
      gather('ZADD', K .. 'sd:' .. num .. ':F', digits(due), id)
    end
  end
end
if ended > 0 then
  write('HINCRBY', C, 'pending', -ended)
  write('HINCRBY', C, 'leased', -ended)
  write('HINCRBY', C, 'bytes', -bytes)
  write('HINCRBY', C, 'delivered', ended)
  for lane, count in pairs(in_flight) do write('HINCRBY', C, 'i' .. lane, -count) end
  if keeps then
    write('HSET', C, 'ended', number)
    -- Live timers have no stub, so none of these is among those that are there.
    local over = call('ZCARD', K .. 'sl:' .. num) + ended - ctl.a_retained
    if over > 0 then
      for _, old in ipairs(call('ZRANGE', K .. 'sl:' .. num, 0, math.min(over, 64) - 1)) do drop_stub(num, old) end
    end
  end
end
flush()
return out
