-- Takes an acknowledgement or an extension from the holder of a lease (P3, P8).
--
-- KEYS  seq
-- ARGV  1 number of the namespace  2 id  3 nonce  4 name that the caller believes in, or ''
--       5 'ack' or 'extend'  6 ms to extend by  7 longest time from claim to end, ms
-- reply OK | LOST | INVALID (a token of another namespace) | SLOW (not held: look whether it was
--       settled before, or ended by the clock), each with now
local num, id = ARGV[1], ARGV[2]
local ctl = control(num)
local refused
if not ctl then
  refused = 'LOST'
elseif ARGV[4] ~= '' and ARGV[4] ~= ctl.name then
  refused = 'INVALID'
end
local hold = not refused and call('HGET', K .. 'x:' .. num, id)
local lease = hold and lease_of(hold)
if not refused and (not lease or lease.nonce ~= ARGV[3] or is_over(lease)) then
  refused = 'SLOW'
end
if refused then
  call('INCR', KEYS[1])
  return { refused, digits(now) }
end

if ARGV[5] == 'extend' then
  if lease.who == 'C' then
    local till = math.min(now + tonumber(ARGV[6]), lease.since + tonumber(ARGV[7]))
    local text = digits(lease.since) .. ' ' .. digits(till) .. ' ' .. digits(lease.at) .. ' C'
    write('HSET', K .. 'x:' .. num, id, lease.nonce .. text)
    write('ZADD', K .. 'leased', digits(till), num .. NUL .. id)
  end
  flush()
  return { 'OK', digits(now) }
end

local record = call('HGET', K .. 'r:' .. num, id)
uproot(num, id, record, hold)
write('HDEL', K .. 'r:' .. num, id)
write('HDEL', K .. 'p:' .. num, id)
write('HINCRBY', K .. 'c:' .. num, 'delivered', 1)
local stub = 'F' .. be(now, 6) .. string.char(#hold) .. hold .. core_of(record)
keep_stub(ctl, id, 'F', due_of(record), stub)
flush()
return { 'OK', digits(now) }
