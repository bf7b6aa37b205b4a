# frozen_string_literal: true

# Every call of the client once, against a server: `ruby tour.rb http://127.0.0.1:3859`.

require_relative "duly"

server = Duly.new(ARGV.fetch(0))
shop = server.namespace("shop")
shop.put(retry: { delays: ["1h"] })

timer = shop.schedule(id: "order/1041 ü", delay: "15m", payload: { order: 1041 }, tags: ["open"])
puts "scheduled #{timer["id"]} #{timer["state"]}, revision #{timer["revision"]}"
again = shop.schedule(id: "order/1041 ü", delay: "15m", payload: { order: 1041 }, tags: ["open"])
puts "the same request again: existing #{again["existing"]}"
puts "read order #{shop.get("order/1041 ü")["payload"]["order"]}"
changed = shop.change("order/1041 ü", due_at: "2035-01-31T12:00:00+01:00", if_revision: 1)
puts "changed to #{changed["due_at"]}, revision #{changed["revision"]}"

begin
  shop.cancel("order/1041 ü", if_revision: 1)
rescue Duly::Problem => problem
  puts "refused: #{problem.code}, #{problem.fields["actual_revision"]} is its revision"
end
puts "cancel: #{shop.cancel("order/1041 ü", if_revision: 2)["outcome"]}"
puts "cancel again: already #{shop.cancel("order/1041 ü")["already"]}"

timers = (1..5).map { |n| { schedule: { id: "n#{n}", delay: "#{n}h", tags: ["n"] } } }
results = shop.batch([*timers, { cancel: { id: "none" } }, { fire: { id: "n5" } }])
puts "batch: #{results.map { |result| (result["timer"] || result["error"]).values_at("id", "code").compact.first }.join(" ")}"
puts "listed: #{shop.each_timer(tag: "n", limit: 2).map { |found| found["id"] }.join(" ")}"

firings = shop.lease(max: 10, wait_s: 20, lease: "1m")
puts "leased: #{firings.map { |firing| firing["id"] }.join(" ")}, attempt #{firings[0]["attempt"]}"
token = firings[0]["token"]
puts "settled: #{shop.settle([{ token: token, ack: {} }, { token: "none", ack: {} }]).map { |result| result["outcome"] }.join(" ")}"

slow = server.namespace("slow")
slow.put(limits: { namespace: { schedule_per_second: 1 } })
server.on_repeat = ->(failure) { puts "#{failure.code}: waited, #{failure.wait_s.between?(0, 1)}" }
2.times { |n| slow.schedule(id: "s#{n}", delay: "1h") }
puts "both: #{slow.each_timer.count}"
