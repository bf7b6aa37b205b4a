-- Acknowledges firings of one namespace (P3, P8). Each acknowledgement is decided alone; all of them share the
-- writes, key by key.
--
-- KEYS  seq
-- ARGV  1 number of the namespace  2 name that the caller expects, or '', then for each: id; nonce
-- reply now, then a word for each: OK | LOST | INVALID (a token of another namespace) |
--       SLOW (not leased under this nonce: the caller reads whether it was settled before, or ended by the clock)
local num = ARGV[1]
local ctl = control(num)
local out = { now_text }
if not ctl or (ARGV[2] ~= '' and ARGV[2] ~= ctl.name) then
  for i = 3, #ARGV, 2 do out[#out + 1] = ctl and 'INVALID' or 'LOST' end
  touch_seq()
  return out
end
local R, X, C = K .. 'r:' .. num, K .. 'x:' .. num, K .. 'c:' .. num
local ids, count = {}, 0
for i = 3, #ARGV, 2 do
  count = count + 1
  ids[count] = ARGV[i]
end
local holds, records = call('HMGET', X, unpack(ids)), call('HMGET', R, unpack(ids))
local keeps = ctl.retention > 0 and ctl.a_retained > 0
local over, bytes, in_flight, lists = {}, 0, {}, {}
local tombstones, apart, retried, ended, prefix = {}, {}, {}, 0, num .. NUL
local finished = 'F' .. time_bytes(now)
-- Leases of one claim end at the same time, so the last end is reused.
local till_bytes, till
for k = 1, count do
  local id, hold, record = ids[k], holds[k], records[k]
  local held = hold and record and sub(hold, 1, 8) == ARGV[2 + k * 2]
  local who
  if held then
    who = sub(hold, 27)
    if who == 'C' then
      local ends = sub(hold, 15, 20)
      if ends ~= till_bytes then till_bytes, till = ends, time_at(hold, 15) end
      held = till > now
    end
  end
  if not held then
    out[k + 1] = 'SLOW'
  else
    out[k + 1] = 'OK'
    ended = ended + 1
    over[ended] = id
    local flags, lane, s1, s2, s3, s4, high, low = byte(record, 2, 9)
    bytes = bytes + 128 + #id + ((s1 * 256 + s2) * 256 + s3) * 256 + s4
    in_flight[lane] = (in_flight[lane] or 0) + 1
    local list = lists[who]
    if not list then
      list = { 'ZREM', leases_of(who) }
      lists[who] = list
    end
    list[#list + 1] = prefix .. id
    if flags % 2 == 1 then retried[#retried + 1] = id end
    if flags >= 2 and lies_apart(record) then apart[#apart + 1] = id end
    if keeps then tombstones[ended] = finished .. char(#hold) .. hold .. sub(record, 1, high * 256 + low) end
  end
end
if ended > 0 then
  if keeps then
    trim_tombstones(ctl, ended, nil, 64)
    -- A live timer has no tombstone, so none of these replaces one.
    keep_tombstones(ctl, 'F', over, tombstones)
  end
  for _, list in pairs(lists) do W[#W + 1] = list end
  write('HDEL', X, unpack(over))
  write('HDEL', R, unpack(over))
  if is_indexed(num, 'l') then write('ZREM', K .. 'bx:' .. num, unpack(over)) end
  if #retried > 0 then write('ZREM', K .. 'b:' .. num, unpack(retried)) end
  if #apart > 0 then write('HDEL', K .. 'p:' .. num, unpack(apart)) end
  write('HINCRBY', C, 'pending', -ended)
  write('HINCRBY', C, 'leased', -ended)
  write('HINCRBY', C, 'bytes', -bytes)
  write('HINCRBY', C, 'delivered', ended)
  for lane, gone in pairs(in_flight) do write('HINCRBY', C, 'i' .. lane, -gone) end
end
flush()
return out
